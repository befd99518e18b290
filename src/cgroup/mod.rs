//! The QoS cgroup tree: pod cgroups on v1 and v2 hosts, with the cgroupfs and the systemd driver.
