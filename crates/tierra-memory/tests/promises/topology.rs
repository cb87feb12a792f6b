//! The promise of discovery: a machine described by a folder of small files is understood, what a
//! kernel leaves out is no error, and what it says wrongly is.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tierra_memory::{NodeId, SocketId, Speed, Topology, TopologyError};

fn put(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// The least that any Linux has: two CPUs, memory, a mount table.
fn small() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    put(&root, "sys/devices/system/cpu/online", "0-1");
    put(
        &root,
        "proc/meminfo",
        "MemTotal:       2048 kB\nMemFree:        1024 kB",
    );
    put(
        &root,
        "proc/self/mountinfo",
        "22 27 0:21 / /proc rw,relatime - proc proc rw",
    );
    root
}

/// Two sockets of two CPUs, a node each, a node without CPUs, a DAX device, and mounts.
fn large() -> TempDir {
    let root = small();
    put(&root, "sys/devices/system/cpu/online", "0-3");
    for cpu in 0..4 {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        put(&root, &path, &(cpu / 2).to_string());
    }
    let nodes = [
        ("0-1", 1 << 20, "10 21 17"),
        ("2-3", 2 << 20, "21 10 28"),
        ("", 8 << 20, "17 28 10"),
    ];
    for (id, (cpus, kib, distance)) in nodes.into_iter().enumerate() {
        let folder = format!("sys/devices/system/node/node{id}");
        put(&root, &format!("{folder}/cpulist"), cpus);
        put(
            &root,
            &format!("{folder}/meminfo"),
            &format!("Node {id} MemTotal:       {kib} kB"),
        );
        put(&root, &format!("{folder}/distance"), distance);
    }
    put(&root, "sys/devices/system/node/online", "0-2");
    put(&root, "sys/bus/dax/devices/dax0.0/size", "4294967296");
    put(&root, "sys/bus/dax/devices/dax0.0/align", "2097152");
    put(&root, "sys/bus/dax/devices/dax0.0/target_node", "2");
    put(&root, "sys/bus/dax/devices/dax0.0/numa_node", "0");
    put(&root, "sys/bus/dax/devices/dax1.0/size", "64");
    put(&root, "sys/bus/dax/devices/dax1.0/numa_node", "-1");
    put(&root, "sys/class/block/pmem0/device/numa_node", "1");
    put(
        &root,
        "proc/self/mountinfo",
        "22 27 0:21 / /proc rw,relatime - proc proc rw
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684092k
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 24 0:24 / /read/only ro,relatime - tmpfs tmpfs rw
36 35 98:0 / /mnt/pmem\\0400 rw,noatime shared:1 - ext4 /dev/pmem0 rw,dax=always
37 35 98:1 / /mnt/disk rw - ext4 /dev/sda1 rw",
    );
    fs::create_dir_all(root.path().join("dev/shm")).unwrap();
    root
}

#[test]
fn two_sockets_a_memory_node_and_dax_are_found() {
    let root = large();
    let machine = Topology::discover_in(root.path()).unwrap();
    let sockets: Vec<_> = machine
        .sockets
        .iter()
        .map(|s| (s.id, s.cpus.clone()))
        .collect();
    assert_eq!(
        sockets,
        [(SocketId(0), vec![0, 1]), (SocketId(1), vec![2, 3])]
    );

    let nodes: Vec<_> = machine
        .nodes
        .iter()
        .map(|n| (n.id, n.socket, n.bytes))
        .collect();
    assert_eq!(
        nodes,
        [
            (NodeId(0), Some(SocketId(0)), 1 << 30),
            (NodeId(1), Some(SocketId(1)), 2 << 30),
            (NodeId(2), None, 8 << 30),
        ]
    );
    assert!(machine.nodes[1].has_cpus() && !machine.nodes[2].has_cpus());
    assert_eq!(machine.nodes[2].distance, [17, 28, 10]);
    assert_eq!(machine.speed(NodeId(0), SocketId(0)), Speed::Near);
    assert_eq!(machine.speed(NodeId(1), SocketId(0)), Speed::Far);
    assert_eq!(machine.speed(NodeId(2), SocketId(0)), Speed::Far);

    let devices: Vec<_> = machine
        .dax_devices
        .iter()
        .map(|d| (d.name.as_str(), d.bytes, d.align_bytes, d.node))
        .collect();
    assert_eq!(
        devices,
        [
            ("dax0.0", 4 << 30, Some(2 << 20), Some(NodeId(2))),
            ("dax1.0", 64, None, None)
        ]
    );

    assert_eq!(machine.dax_mounts.len(), 1);
    assert_eq!(machine.dax_mounts[0].path, Path::new("/mnt/pmem 0"));
    assert_eq!(machine.dax_mounts[0].node, Some(NodeId(1)));
    assert_eq!(
        machine.dax_mounts[0].bytes, None,
        "the mount point is not below this root"
    );
    assert_eq!(
        machine.tmpfs_mounts.len(),
        1,
        "neither read-only nor the kernel's own"
    );
    assert_eq!(machine.tmpfs_mounts[0].path, Path::new("/dev/shm"));
    assert!(machine.tmpfs_mounts[0].bytes.is_some());
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let machine = Topology::discover_in(small().path()).unwrap();
    assert_eq!(machine.sockets.len(), 1);
    assert_eq!(machine.nodes.len(), 1);
    assert_eq!(machine.nodes[0].bytes, 2 << 20);
    assert_eq!(machine.nodes[0].cpus, [0, 1]);
    assert!(machine.dax_devices.is_empty() && machine.dax_mounts.is_empty());
}

#[test]
fn what_is_missing_or_malformed_is_named() {
    let root = tempfile::tempdir().unwrap();
    let error = Topology::discover_in(root.path()).unwrap_err();
    assert!(matches!(error, TopologyError::Read { .. }));
    assert!(error.to_string().contains("cpu/online"), "{error}");

    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-x"),
        ("sys/devices/system/cpu/online", "3-1"),
        ("sys/devices/system/cpu/online", "0-4294967295"),
        (
            "sys/devices/system/cpu/cpu2/topology/physical_package_id",
            "first",
        ),
        (
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemFree: 7 kB",
        ),
        (
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal: many kB",
        ),
        ("sys/devices/system/node/node1/distance", "10 far"),
        ("sys/devices/system/node/node2/cpulist", "?"),
        ("sys/bus/dax/devices/dax0.0/size", "-1"),
        ("sys/bus/dax/devices/dax0.0/align", "two"),
    ] {
        let root = large();
        put(&root, path, text);
        let error = Topology::discover_in(root.path()).unwrap_err();
        assert!(
            matches!(error, TopologyError::Malformed { .. }),
            "{path}: {error}"
        );
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn this_machine_is_understood() {
    let machine = Topology::discover().unwrap();
    assert!(!machine.sockets.is_empty());
    assert!(
        machine
            .nodes
            .iter()
            .any(|node| node.has_cpus() && node.bytes > 0)
    );
    assert!(machine.nodes.is_sorted_by_key(|node| node.id));
}
