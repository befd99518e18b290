//! Trees of sysfs in the formats of the kernel's documentation.

use super::*;

/// A CPU of a tree: number, socket, core within the socket, and the CPUs that share its last-level cache, with the number of that.
struct Cpu(u32, u32, u32, &'static str, u32);

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(online: &str, cpus: &[Cpu]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write("cpu/online", &format!("{online}\n"));
        fs::create_dir_all(tree.path("cpu/cpufreq")).unwrap();
        for Cpu(cpu, socket, core, shared, cache) in cpus {
            tree.write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &format!("{socket}\n"));
            tree.write(&format!("cpu/cpu{cpu}/topology/core_id"), &format!("{core}\n"));
            tree.write(&format!("cpu/cpu{cpu}/cache/index0/level"), "1\n");
            tree.write(&format!("cpu/cpu{cpu}/cache/index3/level"), "3\n");
            tree.write(&format!("cpu/cpu{cpu}/cache/index3/id"), &format!("{cache}\n"));
            tree.write(&format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list"), &format!("{shared}\n"));
        }
        tree
    }

    fn node(self, node: u32, cpus: &[u32], kibibytes: u64, pages: u64, distances: &str) -> Self {
        for cpu in cpus {
            fs::create_dir_all(self.path(&format!("node/node{node}/cpu{cpu}"))).unwrap();
        }
        let meminfo =
            format!("Node {node} MemTotal:       {kibibytes} kB\nNode {node} MemFree:        1 kB\n");
        self.write(&format!("node/node{node}/meminfo"), &meminfo);
        self.write(
            &format!("node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"),
            &format!("{pages}\n"),
        );
        self.write(&format!("node/node{node}/distance"), &format!("{distances}\n"));
        self
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join("devices/system").join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Node, socket, core and cache of each CPU.
    fn cpus(&self) -> Vec<(u32, [u32; 4])> {
        let cpus = NumaTopology::read(self.0.path()).cpus.into_iter();
        cpus.map(|(cpu, at)| (cpu, [at.node, at.socket, at.core, at.cache])).collect()
    }
}

#[test]
fn two_sockets_with_threads_are_two_nodes() {
    let cpus = [
        Cpu(0, 0, 0, "0-1,4-5", 0),
        Cpu(1, 0, 1, "0-1,4-5", 0),
        Cpu(2, 1, 0, "2-3,6-7", 1),
        Cpu(3, 1, 1, "2-3,6-7", 1),
        Cpu(4, 0, 0, "0-1,4-5", 0),
        Cpu(5, 0, 1, "0-1,4-5", 0),
        Cpu(6, 1, 0, "2-3,6-7", 1),
        Cpu(7, 1, 1, "2-3,6-7", 1),
    ];
    let tree = Tree::new("0-7", &cpus);
    let tree = tree.node(0, &[0, 1, 4, 5], 1024, 3, "10 21").node(1, &[2, 3, 6, 7], 2048, 0, "21 10");
    let expected = [
        (0, [0, 0, 0, 0]),
        (1, [0, 0, 1, 0]),
        (2, [1, 1, 2, 1]),
        (3, [1, 1, 3, 1]),
        (4, [0, 0, 0, 0]),
        (5, [0, 0, 1, 0]),
        (6, [1, 1, 2, 1]),
        (7, [1, 1, 3, 1]),
    ];
    assert_eq!(tree.cpus(), expected);
    let nodes = NumaTopology::read(tree.0.path()).nodes;
    let first = NodeFacts { memory: 1 << 20, huge_pages: [(2 << 20, 3)].into(), distances: vec![10, 21] };
    assert_eq!((&nodes[&0], nodes[&1].memory, nodes.len()), (&first, 2 << 20, 2));
}

#[test]
fn cores_that_share_a_cache_are_a_group_and_a_node_may_have_no_cpus() {
    let cpus =
        [Cpu(0, 0, 0, "0-1", 4), Cpu(1, 0, 1, "0-1", 4), Cpu(2, 0, 2, "2-3", 5), Cpu(3, 0, 3, "2-3", 5)];
    let tree = Tree::new("0-3", &cpus).node(0, &[0, 1, 2, 3], 1024, 0, "10 20").node(1, &[], 512, 0, "20 10");
    let expected = [(0, [0, 0, 0, 4]), (1, [0, 0, 1, 4]), (2, [0, 0, 2, 5]), (3, [0, 0, 3, 5])];
    assert_eq!(tree.cpus(), expected);
    assert_eq!(NumaTopology::read(tree.0.path()).nodes[&1].memory, 512 << 10);
}

#[test]
fn a_cpu_that_is_offline_is_not_there() {
    let cpus = [Cpu(1, 0, 0, "1,3", 0), Cpu(3, 0, 0, "1,3", 0), Cpu(2, 0, 1, "2", 0)];
    let tree = Tree::new("2-3", &cpus).node(0, &[1, 2, 3], 1, 0, "10");
    let cpus: Vec<(u32, u32)> = tree.cpus().into_iter().map(|(cpu, at)| (cpu, at[2])).collect();
    assert_eq!(cpus, [(2, 2), (3, 3)], "its core is that of the thread that is left");
}

#[test]
fn without_nodes_sockets_are_nodes_and_without_anything_there_is_nothing() {
    let tree = Tree::new("0-1", &[Cpu(0, 0, 0, "0", 7), Cpu(1, 3, 0, "1", 8)]);
    assert_eq!(tree.cpus(), [(0, [0, 0, 0, 0]), (1, [3, 3, 1, 3])]);
    assert_eq!(NumaTopology::read(Path::new("/nowhere")), NumaTopology::default());
}
