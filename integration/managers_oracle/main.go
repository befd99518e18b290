// Runs upstream's managers of CPUs, memory and topology on machines that are described as JSON: reads a case per line, and prints a line
// with what became of it. The managers are those of a stock kubelet, from their constructors to their checkpoint files.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Some of upstream's loops do not end on some machines.
const patience = 2 * time.Second

// What a case is about; the names are those of the fields of a kubelet's configuration, where there are any.
type request struct {
	Machine         machine           `json:"machine"`
	Gates           map[string]bool   `json:"gates"`
	CPUPolicy       string            `json:"cpuPolicy"`
	CPUOptions      map[string]string `json:"cpuOptions"`
	ReservedCPUs    string            `json:"reservedCpus"`
	Reserved        v1.ResourceList   `json:"reserved"`
	MemoryPolicy    string            `json:"memoryPolicy"`
	ReservedMemory  []reservation     `json:"reservedMemory"`
	TopologyPolicy  string            `json:"topologyPolicy"`
	TopologyScope   string            `json:"topologyScope"`
	TopologyOptions map[string]string `json:"topologyOptions"`
	Steps           []step            `json:"steps"`
}

type reservation struct {
	Node   int32           `json:"node"`
	Limits v1.ResourceList `json:"limits"`
}

// One of these.
type step struct {
	Add     *v1.Pod `json:"add"`
	Remove  string  `json:"remove"`
	Started *start  `json:"started"`
}

// A container of a pod that is being started.
type start struct {
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

type response struct {
	// Why the managers cannot be made.
	Error string `json:"error,omitempty"`
	// Why upstream has no answer: a panic, or a loop.
	Broken string    `json:"broken,omitempty"`
	Steps  []outcome `json:"steps,omitempty"`
	Legacy *legacy   `json:"legacy,omitempty"`
}

type outcome struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// The contents of the checkpoint files.
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

func main() {
	klog.SetLogger(logr.Discard())
	input := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var request request
		if err == nil {
			err = json.Unmarshal(line, &request)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot read a case:", err)
			os.Exit(1)
		}
		done := make(chan response, 1)
		go func() { done <- guarded(&request) }()
		select {
		case response := <-done:
			_ = output.Encode(response)
		case <-time.After(patience):
			_ = output.Encode(response{Broken: "no answer"})
			// What loops cannot be stopped.
			os.Exit(0)
		}
	}
}

func guarded(request *request) (answer response) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = response{Broken: fmt.Sprint("panic: ", panicked)}
		}
	}()
	return run(request)
}
