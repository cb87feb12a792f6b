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

/// The small machine, of 2 MiB, with this group and a hierarchy of version 2 of which `part` is mounted.
fn grouped(group: &str, part: &str) -> TempDir {
    let root = small();
    put(&root, "proc/self/cgroup", group);
    let mounts = format!(
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
         29 23 0:26 {part} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
    );
    put(&root, "proc/self/mountinfo", &mounts);
    root
}

#[test]
fn the_least_limit_of_a_group_and_of_those_above_it_counts() {
    let found = |files: &[(&str, &str)]| {
        let root = grouped("0::/system.slice/tierra.service", "/");
        for (path, text) in files {
            put(&root, &format!("sys/fs/cgroup/{path}"), text);
        }
        let machine = Topology::discover_in(root.path()).unwrap();
        (
            machine.memory_limit,
            machine.usable_bytes(),
            machine.usable_near_bytes(),
        )
    };
    let (own, above) = (
        "system.slice/tierra.service/memory.max",
        "system.slice/memory.max",
    );
    let limited = |bytes| (Some(bytes), bytes, bytes);
    assert_eq!(found(&[]), (None, 2 << 20, 2 << 20));
    assert_eq!(
        found(&[(own, "max"), (above, "max")]),
        (None, 2 << 20, 2 << 20)
    );
    assert_eq!(found(&[(own, "1048576"), (above, "max")]), limited(1 << 20));
    assert_eq!(found(&[(own, "max"), (above, "4096")]), limited(4096));
    assert_eq!(found(&[(own, "8192"), (above, "4096")]), limited(4096));
    assert_eq!(found(&[(own, "4096"), (above, "8192")]), limited(4096));
    assert_eq!(found(&[("memory.max", "4096")]), limited(4096));
    // What slows a group down.
    let high = "system.slice/tierra.service/memory.high";
    assert_eq!(found(&[(own, "8192"), (high, "4096")]), limited(4096));
    // A limit beyond the machine's memory is none that matters.
    assert_eq!(
        found(&[(own, "8388608")]),
        (Some(8 << 20), 2 << 20, 2 << 20)
    );
    // A group beside it.
    assert_eq!(found(&[("user.slice/memory.max", "4096")]).0, None);
}

/// In a container the group is named from where the host sees it, or from the container's own root.
#[test]
fn limits_are_found_through_what_is_mounted() {
    for (group, part, file) in [
        ("0::/", "/", "memory.max"),
        ("0::/a/b", "/a/b", "memory.max"),
        ("0::/a/b/c", "/a/b", "c/memory.max"),
        ("0::/a/b", "/elsewhere", "memory.max"),
        ("0::/../x", "/", "memory.max"),
        ("0::/a b", "/", "a b/memory.max"),
        ("7:cpu:/x\n0::/y", "/", "y/memory.max"),
    ] {
        let root = grouped(group, part);
        put(&root, &format!("sys/fs/cgroup/{file}"), "4096");
        let machine = Topology::discover_in(root.path()).unwrap();
        assert_eq!(machine.memory_limit, Some(4096), "{group} {part}");
    }
    // Files outside of the hierarchy are none of its limits.
    let root = grouped("0::/a/b", "/");
    put(&root, "sys/fs/memory.max", "4096");
    let machine = Topology::discover_in(root.path()).unwrap();
    assert_eq!(machine.memory_limit, None);
}

#[test]
fn limits_of_version_1_count_as_well() {
    let root = small();
    put(
        &root,
        "proc/self/cgroup",
        "4:memory:/jobs/a\n1:cpu,cpuacct:/other\n0::/",
    );
    put(
        &root,
        "proc/self/mountinfo",
        "22 27 0:21 / /proc rw,relatime - proc proc rw
30 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
31 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    );
    let limit = || Topology::discover_in(root.path()).unwrap().memory_limit;
    let file = "sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes";
    // As the kernel writes that there is none.
    put(&root, file, "9223372036854771712");
    assert_eq!(limit(), None);
    put(
        &root,
        "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
        "8192",
    );
    assert_eq!(limit(), Some(8192));
    put(&root, file, "4096");
    assert_eq!(limit(), Some(4096));
    put(&root, file, "many");
    assert!(matches!(
        Topology::discover_in(root.path()),
        Err(TopologyError::Malformed { .. })
    ));
}
