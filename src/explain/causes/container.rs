//! What keeps a container from being made or started: its program, its directories, its user, its limits, its profile.

use super::rule::{Rule, rule};

const PROGRAM: &str = "check command and args of the container against what is in its image: a program that is not in the PATH \
     of the image needs its whole path, and a line of shell needs command: [sh, -c, …] and an image that has a shell";
const WORKING_DIR: &str =
    "correct workingDir of the container: a directory, with its whole path, that its user may enter";
const MEMORY: &str = "raise resources.limits.memory of the container: even a small program needs several megabytes to start \
     (say 16Mi)";

pub(super) const RULES: &[Rule] = &[
    rule(&["executable file not found in $path"], "its program is not in its image", PROGRAM),
    rule(&["exec: ", "stat ", "no such file or directory"], "its program is not in its image", PROGRAM),
    rule(
        &["exec ", "exec format error"],
        "its program is not made for this machine, or is a script that does not name its interpreter",
        "use an image for this machine's architecture (uname -m); a script must begin with a line such as #!/bin/sh",
    ),
    rule(&["exec: ", "is a directory"], "its command is a directory", PROGRAM),
    rule(
        &["exec: ", "permission denied"],
        "its program may not be run",
        "see that command names a program, not a directory or a file of text, that the file is executable in the image \
         (chmod +x), and that runAsUser may run it",
    ),
    rule(
        &["exec ", "no such file or directory"],
        "the interpreter or loader that its program names is not in its image",
        "see the first line of the script: its interpreter must be in the image, and line ends must not be those of Windows; a \
         program needs an image with the C library it was built for",
    ),
    rule(
        &["no command specified"],
        "neither its image nor its manifest names a program",
        "give the container a command",
    ),
    rule(&["cwd must be an absolute path"], "its workingDir is no whole path", WORKING_DIR),
    rule(&["chdir to cwd"], "its workingDir cannot be entered", WORKING_DIR),
    rule(&["current working directory is outside"], "its workingDir leads out of the container", WORKING_DIR),
    rule(
        &["is mounted on", "but it is not a shared"],
        "a volume asks for mountPropagation, and the host's directory is on no shared mount",
        "remove mountPropagation from the container's volumeMounts, or have the host share that mount \
         (mount --make-rshared with the mount point that the message names)",
    ),
    rule(
        &["mount", "cannot be mounted because it is inside /proc"],
        "a volume is to be mounted in /proc, which no container may",
        "give the volume another mountPath",
    ),
    rule(
        &["mounting", "not a directory"],
        "a directory is to be mounted onto a file, or a file onto a directory",
        "make both ends one kind: the host's path (or the volume) and what is at mountPath in the image; a single file of a \
         volume cannot be mounted onto a directory",
    ),
    rule(
        &["mounting", "read-only file system"],
        "a volume is to be mounted in a place that is not there and cannot be made, because it lies in a read-only volume",
        "make the directory in the outer volume beforehand, mount that one without readOnly, or choose a mountPath outside of it",
    ),
    rule(
        &["mounting", "no such file or directory"],
        "what is to be mounted is not on this host any more",
        "see that the path that the message names is there; hostlet goes on by itself",
    ),
    rule(
        &["mounting", "permission denied"],
        "this host does not permit the mount of a volume",
        "see that root may read what the message names (network file systems often forbid it), and what the kernel says \
         (journalctl -k | grep -i denied)",
    ),
    rule(
        &["failed to mkdir"],
        "the path of a hostPath volume is not on this host and cannot be made",
        "make it beforehand, or correct hostPath.path; with type: Directory or File the volume says earlier what is missing",
    ),
    rule(
        &["failed to stat"],
        "the path of a hostPath volume cannot be looked at",
        "see that the path that the message names can be read by root on this host",
    ),
    rule(
        &["mkdir ", "not a directory"],
        "its workingDir or one of its mountPaths goes through a file",
        "correct workingDir, or the mountPath that the message names: every part of it must be a directory in the image",
    ),
    rule(
        &["no users found"],
        "the user that its image names is not in the image's /etc/passwd",
        "set securityContext.runAsUser to a number, or correct USER in the image",
    ),
    rule(
        &["no groups found"],
        "the group that its image names is not in the image's /etc/group",
        "set securityContext.runAsUser and runAsGroup to numbers, or correct USER in the image",
    ),
    rule(
        &["unable to find user"],
        "the user that its image names is not in the image's /etc/passwd",
        "set securityContext.runAsUser to a number, or correct USER in the image",
    ),
    rule(
        &["unable to find group"],
        "the group that its image names is not in the image's /etc/group",
        "set securityContext.runAsUser and runAsGroup to numbers, or correct USER in the image",
    ),
    rule(
        &["cannot load seccomp profile"],
        "its seccomp profile is not on this host",
        "put the file where the message names it, or set seccompProfile.type to RuntimeDefault; localhostProfile is a path \
         below the directory seccomp of hostlet's root directory",
    ),
    rule(
        &["decoding seccomp profile failed"],
        "its seccomp profile is not valid JSON",
        "correct the file that the message names",
    ),
    rule(
        &["seccomp is not"],
        "this host's kernel or runtime has no seccomp",
        "remove seccompProfile from securityContext, or use a kernel with CONFIG_SECCOMP_FILTER",
    ),
    rule(
        &["seccomp"],
        "its seccomp profile cannot be applied",
        "correct the profile, or set seccompProfile.type to RuntimeDefault",
    ),
    rule(
        &["apparmor"],
        "its AppArmor profile cannot be applied",
        "load the profile (apparmor_parser -r FILE; aa-status lists those that are), or remove appArmorProfile",
    ),
    rule(
        &["selinux"],
        "its SELinux label cannot be applied",
        "correct securityContext.seLinuxOptions; without SELinux on this host (getenforce) remove them",
    ),
    rule(
        &["error gathering device information"],
        "a device that it asks for is not on this host",
        "see that the device the message names is there (ls -l /dev)",
    ),
    rule(&["oom-killed (memory limit too low"], "its memory limit is too low for anything to start", MEMORY),
    rule(
        &["cannot start a stopped process"],
        "it was killed before it could start; mostly its memory limit is too low",
        MEMORY,
    ),
    rule(&["cgroup", "cannot allocate memory"], "its memory limit is too low for anything to start", MEMORY),
    rule(&["unable to set memory limit"], "its memory limit is lower than what it uses already", MEMORY),
    rule(&["minimum memory limit"], "its memory limit is lower than the least that is possible", MEMORY),
    rule(
        &["cpu.", "invalid argument"],
        "the kernel refuses its CPU limit",
        "correct resources.limits.cpu of the container: no more than the pod's cgroup or this host may use",
    ),
    rule(
        &["/proc/sys/"],
        "the kernel refuses one of the pod's sysctls, or does not know it",
        "correct spec.securityContext.sysctls: see on this host what values are possible (sysctl NAME)",
    ),
    rule(
        &["oom_score_adj", "permission denied"],
        "the container runtime may not set how soon the kernel kills it for want of memory",
        "set restrict_oom_score_adj = true in containerd's configuration, or run containerd with CAP_SYS_RESOURCE",
    ),
    rule(
        &["error setting rlimit"],
        "the container runtime may not set its limits (ulimit)",
        "see the limits of the service containerd (systemctl show containerd | grep Limit)",
    ),
    rule(
        &["cgroup"],
        "its cgroup cannot be made or set up",
        "correct resources of the container as the message says, and see that this host's cgroup file system can be written \
         (mount | grep cgroup)",
    ),
    rule(
        &["failed to mount rootfs"],
        "the file system of its image cannot be mounted",
        "see what the kernel says (journalctl -k), and that it knows overlay (modprobe overlay); the disk of \
         /var/lib/containerd must not be an overlay itself",
    ),
    rule(
        &["content digest", "not found"],
        "a part of its image is missing in the container runtime's store",
        "remove the image (crictl rmi IMAGE, or ctr -n k8s.io images rm IMAGE), so that it is pulled anew",
    ),
    rule(
        &["snapshot", "does not exist"],
        "a part of its image is missing in the container runtime's store",
        "remove the image (crictl rmi IMAGE, or ctr -n k8s.io images rm IMAGE), so that it is pulled anew",
    ),
    rule(
        &["failed to get image from containerd"],
        "its image was removed meanwhile",
        "wait: hostlet pulls it anew",
    ),
    rule(
        &["sandbox", "is not running"],
        "the pod's sandbox ended meanwhile",
        "wait: hostlet makes another one; should it happen again and again, see the container runtime's log \
         (journalctl -u containerd)",
    ),
    rule(&["failed to find sandbox"], "the pod's sandbox is gone", "wait: hostlet makes another one"),
    rule(
        &["operation not permitted"],
        "the container runtime may not do that on this host",
        "see that containerd runs as root with all capabilities (not in a container without privileges), and what the kernel \
         says (journalctl -k | grep -i denied)",
    ),
];
