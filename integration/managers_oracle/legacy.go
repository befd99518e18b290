// The checkpoint files that older kubelets would have written.
package main

import (
	"maps"

	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

type legacy struct {
	CPUV2    string `json:"cpuV2"`
	CPUV3    string `json:"cpuV3"`
	MemoryV1 string `json:"memoryV1"`
	MemoryV2 string `json:"memoryV2"`
}

type marshaler interface {
	MarshalCheckpoint() ([]byte, error)
}

func (s *session) legacy() (*legacy, error) {
	entries := map[string]map[string]string{}
	for pod, containers := range s.cpus.State().GetCPUAssignments() {
		entries[pod] = map[string]string{}
		for container, cpus := range containers {
			entries[pod][container] = cpus.String()
		}
	}
	pods := cpustate.PodCPUAssignments{}
	maps.Copy(pods, s.cpus.State().GetPodCPUAssignments())
	shared := s.cpus.State().GetDefaultCPUSet().String()
	memory := s.memory.State()
	memoryEntries := memory.GetMemoryAssignments()
	checkpoints := []marshaler{
		&cpustate.CPUManagerCheckpointV2{PolicyName: "static", DefaultCPUSet: shared, Entries: entries},
		&cpustate.CPUManagerCheckpointV3{PolicyName: "static", DefaultCPUSet: shared, Entries: entries, PodEntries: pods},
		&memorystate.MemoryManagerCheckpointV1{
			PolicyName: "Static", MachineState: memory.GetMachineState(), Entries: memoryEntries},
		&memorystate.MemoryManagerCheckpointV2{
			PolicyName: "Static", MachineState: memory.GetMachineState(), Entries: memoryEntries,
			PodEntries: memory.GetPodMemoryAssignments()},
	}
	texts := make([]string, len(checkpoints))
	for i, checkpoint := range checkpoints {
		text, err := checkpoint.MarshalCheckpoint()
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return &legacy{CPUV2: texts[0], CPUV3: texts[1], MemoryV1: texts[2], MemoryV2: texts[3]}, nil
}
