//! Trees of files as kernels show them, and this machine.

use super::*;

/// A sysfs of files.
struct Sys(tempfile::TempDir);

impl Sys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.path().join("devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    fn cpu(&self, cpu: u32, socket: u32, core: u32, l3: (u32, &str)) {
        self.write(&format!("cpu/cpu{cpu}/topology/core_id"), &core.to_string());
        self.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &socket.to_string());
        for (index, level) in [(0, 1), (2, 2), (3, 3)] {
            let cache = format!("cpu/cpu{cpu}/cache/index{index}");
            self.write(&format!("{cache}/level"), &level.to_string());
            self.write(&format!("{cache}/id"), &if level == 3 { l3.0 } else { core }.to_string());
            let shared = if level == 3 { l3.1.to_owned() } else { cpu.to_string() };
            self.write(&format!("{cache}/shared_cpu_list"), &shared);
        }
    }

    fn node(&self, node: u32, cpus: &[u32], kilobytes: u64, distances: &str) {
        for cpu in cpus {
            self.write(&format!("node/node{node}/cpu{cpu}/is_a_link"), "");
        }
        let memory = format!("Node {node} MemTotal:       {kilobytes} kB\nNode {node} MemFree:  1 kB");
        self.write(&format!("node/node{node}/meminfo"), &memory);
        self.write(&format!("node/node{node}/distance"), distances);
        self.write(&format!("node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"), "16");
        self.write(&format!("node/node{node}/hugepages/hugepages-1048576kB/nr_hugepages"), "0");
    }

    fn read(&self) -> Machine {
        read_machine(self.0.path(), 1 << 30).unwrap()
    }
}

#[test]
fn threads_of_a_core_have_its_lowest_cpu_and_sockets_may_repeat_numbers() {
    let sys = Sys::new();
    // Two sockets of two cores of two threads each; the kernel numbers the threads of a socket after all its cores.
    for (cpu, socket, core) in
        [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1), (4, 0, 0), (5, 0, 1), (6, 1, 0), (7, 1, 1)]
    {
        sys.cpu(cpu, socket, core, (socket, if socket == 0 { "0-1,4-5" } else { "2-3,6-7" }));
    }
    sys.node(0, &[0, 1, 4, 5], 2048, "10 21");
    sys.node(1, &[2, 3, 6, 7], 4096, "21 10");
    sys.write("cpu/cpu7/online", "0");
    sys.write("cpu/cpu6/online", "1");
    let machine = sys.read();
    let place = |node, core| CpuPlace { node, socket: node, core, cache: node };
    let expected = [
        (0, place(0, 0)),
        (1, place(0, 1)),
        (2, place(1, 2)),
        (4, place(0, 0)),
        (5, place(0, 1)),
        (6, place(1, 2)),
    ];
    let found: Vec<(u32, CpuPlace)> = machine.cpus.clone().into_iter().filter(|(cpu, _)| *cpu != 3).collect();
    assert_eq!(found, expected);
    assert!(!machine.cpus.contains_key(&7), "it is offline");
    let node = &machine.nodes[&1];
    assert_eq!((node.memory, &*node.distances), (4096 * 1024, &[21, 10][..]));
    assert_eq!(node.huge_pages, [(2 << 20, 16), (1 << 30, 0)].into());
}

#[test]
fn a_cache_that_only_some_cores_share_is_theirs() {
    let sys = Sys::new();
    for cpu in 0..4 {
        sys.cpu(cpu, 0, cpu, (10 + cpu / 2, if cpu < 2 { "0-1" } else { "2-3" }));
    }
    sys.node(0, &[0, 1, 2, 3], 1024, "10");
    let caches: Vec<u32> = sys.read().cpus.values().map(|place| place.cache).collect();
    assert_eq!(caches, [10, 10, 11, 11]);
}

#[test]
fn without_numa_the_nodes_are_the_sockets_and_the_memory_is_the_machines() {
    let sys = Sys::new();
    sys.cpu(0, 0, 0, (0, "0-1"));
    sys.cpu(1, 0, 1, (0, "0-1"));
    let machine = sys.read();
    assert_eq!(machine.nodes.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!((machine.cpus.len(), machine.nodes[&0].memory), (2, 1 << 30));
}

#[test]
fn a_file_without_its_number_is_named() {
    let sys = Sys::new();
    sys.cpu(0, 0, 0, (0, "0"));
    sys.write("cpu/cpu0/topology/core_id", "x");
    let error = read_machine(sys.0.path(), 0).unwrap_err().to_string();
    assert!(error.ends_with("cpu/cpu0/topology/core_id has \"x\", which is no number"), "{error}");
}

#[test]
fn this_machine_has_the_cpus_that_are_online() {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let machine = read_machine("/sys".as_ref(), 1 << 30).unwrap();
    let expected: Vec<u32> = cpu_list(online.trim()).unwrap().into_iter().collect();
    assert_eq!(machine.cpus.keys().copied().collect::<Vec<_>>(), expected);
}
