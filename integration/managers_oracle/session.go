// A run of the managers: pods come and go.
package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

type session struct {
	dir      string
	cpus     cpumanager.Manager
	memory   memorymanager.Manager
	topology topologymanager.Manager

	// The managers also ask on their own.
	mutex  sync.Mutex
	active []*v1.Pod
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

type noStatuses struct{}

func (noStatuses) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func run(request *request) response {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(request.Gates); err != nil {
		return response{Error: err.Error()}
	}
	dir, err := os.MkdirTemp("", "managers")
	if err != nil {
		return response{Error: err.Error()}
	}
	defer os.RemoveAll(dir)
	ctx := klog.NewContext(context.Background(), logr.Discard())
	s := &session{dir: dir}
	if err := s.start(ctx, request); err != nil {
		return response{Error: err.Error()}
	}
	answer := response{}
	for _, step := range request.Steps {
		answer.Steps = append(answer.Steps, s.step(ctx, step))
	}
	answer.Legacy, err = s.legacy()
	if err != nil {
		return response{Error: err.Error()}
	}
	return answer
}

// Makes the managers, in the order of the container manager.
func (s *session) start(ctx context.Context, request *request) (err error) {
	logger := klog.FromContext(ctx)
	info := request.Machine.info()
	reservedCPUs, err := cpuset.Parse(request.ReservedCPUs)
	if err != nil {
		return err
	}
	s.topology, err = topologymanager.NewManager(
		logger, info.Topology, request.TopologyPolicy, request.TopologyScope, request.TopologyOptions)
	if err != nil {
		return err
	}
	s.cpus, err = cpumanager.NewManager(
		logger, request.CPUPolicy, request.CPUOptions, 24*time.Hour, info, reservedCPUs, request.Reserved, s.dir, s.topology)
	if err != nil {
		return err
	}
	s.topology.AddHintProvider(logger, s.cpus)
	var reserved []kubeletconfig.MemoryReservation
	for _, own := range request.ReservedMemory {
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: own.Node, Limits: own.Limits})
	}
	s.memory, err = memorymanager.NewManager(
		logger, request.MemoryPolicy, info, request.Reserved, reserved, s.dir, s.topology)
	if err != nil {
		return err
	}
	s.topology.AddHintProvider(logger, s.memory)
	containers := containermap.NewContainerMap()
	if err := s.cpus.Start(ctx, s.pods, ready{}, noStatuses{}, nil, containers.Clone()); err != nil {
		return err
	}
	return s.memory.Start(ctx, s.pods, ready{}, noStatuses{}, nil, containers.Clone())
}

func (s *session) pods() []*v1.Pod {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.active)
}

func (s *session) remove(uid types.UID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.active = slices.DeleteFunc(s.active, func(pod *v1.Pod) bool { return pod.UID == uid })
}

func (s *session) step(ctx context.Context, step step) outcome {
	logger := klog.FromContext(ctx)
	result := outcome{}
	switch {
	case step.Add != nil:
		s.mutex.Lock()
		s.active = append(s.active, step.Add)
		s.mutex.Unlock()
		attributes := lifecycle.PodAdmitAttributes{Pod: step.Add, Operation: lifecycle.AddOperation}
		admitted := s.topology.Admit(ctx, &attributes)
		if !admitted.Admit {
			result.Reason, result.Message = admitted.Reason, admitted.Message
			s.remove(step.Add.UID)
		}
	case step.Started != nil:
		for _, pod := range s.pods() {
			for _, container := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
				if string(pod.UID) == step.Started.Pod && container.Name == step.Started.Container {
					s.memory.AddContainer(logger, pod, &container, step.Started.Pod+"/"+container.Name)
				}
			}
		}
	default:
		s.remove(types.UID(step.Remove))
	}
	// Whoever asks first removes what is stale.
	nobody := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "nobody"}}}}
	s.cpus.GetTopologyHints(logger, nobody, &nobody.Spec.Containers[0], lifecycle.AddOperation)
	s.memory.GetTopologyHints(logger, nobody, &nobody.Spec.Containers[0], lifecycle.AddOperation)
	result.CPU, result.Memory = s.file("cpu_manager_state"), s.file("memory_manager_state")
	return result
}

func (s *session) file(name string) string {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(content)
}
