// Machines as hostlet describes them, and as cAdvisor does.
package main

import (
	"maps"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
)

type place struct {
	Node   int `json:"node"`
	Socket int `json:"socket"`
	Core   int `json:"core"`
	Cache  int `json:"cache"`
}

type numaNode struct {
	Memory    uint64            `json:"memory"`
	HugePages map[uint64]uint64 `json:"huge_pages"`
	Distances []uint64          `json:"distances"`
}

type machine struct {
	CPUs  map[int]place    `json:"cpus"`
	Nodes map[int]numaNode `json:"nodes"`
}

func (m *machine) info() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: len(m.CPUs)}
	sockets := map[int]bool{}
	for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
		own := m.Nodes[id]
		node := cadvisorapi.Node{Id: id, Memory: own.Memory, Distances: own.Distances}
		for _, size := range slices.Sorted(maps.Keys(own.HugePages)) {
			pages := cadvisorapi.HugePagesInfo{PageSize: size / 1024, NumPages: own.HugePages[size]}
			node.HugePages = append(node.HugePages, pages)
		}
		cores := map[int]*cadvisorapi.Core{}
		for _, cpu := range slices.Sorted(maps.Keys(m.CPUs)) {
			place := m.CPUs[cpu]
			if place.Node != id {
				continue
			}
			sockets[place.Socket] = true
			if cores[place.Core] == nil {
				caches := []cadvisorapi.Cache{{Id: place.Cache, Level: 3}}
				cores[place.Core] = &cadvisorapi.Core{Id: place.Core, SocketID: place.Socket, UncoreCaches: caches}
			}
			cores[place.Core].Threads = append(cores[place.Core].Threads, cpu)
		}
		for _, core := range slices.Sorted(maps.Keys(cores)) {
			node.Cores = append(node.Cores, *cores[core])
		}
		info.Topology = append(info.Topology, node)
	}
	info.NumSockets = len(sockets)
	return info
}
