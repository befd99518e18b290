//! Causes why a container cannot be created or started: program, directories, user, limits and profiles.

use hostlet_base::causes::{Rule, rule};

const PROGRAM: &str = "check command and args of the container against what is in its image: a program that is not in the PATH \
     of the image needs its absolute path, and a shell command line needs command: [sh, -c, …] and an image that has a shell";
const WORKING_DIR: &str =
    "correct workingDir of the container: the absolute path of a directory that its user can enter";
const MEMORY: &str = "raise resources.limits.memory of the container: even a small program needs several megabytes to start \
     (e.g. 16Mi)";

pub(super) const RULES: &[Rule] = &[
    rule(&["executable file not found in $path"], "its program is not in its image", PROGRAM),
    rule(&["exec: ", "stat ", "no such file or directory"], "its program is not in its image", PROGRAM),
    rule(
        &["exec ", "exec format error"],
        "its program is built for another architecture, or is a script without an interpreter line",
        "use an image for this machine's architecture (uname -m); a script must begin with a line such as #!/bin/sh",
    ),
    rule(&["exec: ", "is a directory"], "its command is a directory", PROGRAM),
    rule(
        &["exec: ", "permission denied"],
        "its program cannot be executed",
        "check that command is a program, not a directory or a text file, that the file is executable in the image \
         (chmod +x), and that runAsUser may run it",
    ),
    rule(
        &["exec ", "no such file or directory"],
        "the interpreter or loader of its program is not in its image",
        "check the first line of the script: its interpreter must be in the image, and line endings must not be \
         those of Windows; a \
         program needs an image with the C library it was built for",
    ),
    rule(
        &["no command specified"],
        "neither its image nor its manifest has a command",
        "give the container a command",
    ),
    rule(&["cwd must be an absolute path"], "its workingDir is not an absolute path", WORKING_DIR),
    rule(&["chdir to cwd"], "its workingDir cannot be entered", WORKING_DIR),
    rule(&["current working directory is outside"], "its workingDir leads out of the container", WORKING_DIR),
    rule(
        &["is mounted on", "but it is not a shared"],
        "a volume mount has mountPropagation, but the host's directory is not on a shared mount",
        "remove mountPropagation from the container's volumeMounts, or make that mount shared on the host \
         (mount --make-rshared with the mount point that the message names)",
    ),
    rule(
        &["mount", "cannot be mounted because it is inside /proc"],
        "a volume mount is below /proc, which is not allowed",
        "give the volume another mountPath",
    ),
    rule(
        &["mounting", "not a directory"],
        "a directory is mounted onto a file, or a file onto a directory",
        "make both a file or both a directory: the host's path (or the volume) and mountPath in the image; a \
         single file of a \
         volume cannot be mounted onto a directory",
    ),
    rule(
        &["mounting", "read-only file system"],
        "a mount point does not exist and cannot be created, because it is inside a read-only volume",
        "create the directory in the outer volume beforehand, mount the outer volume without readOnly, or \
         choose a mountPath outside of it",
    ),
    rule(
        &["mounting", "no such file or directory"],
        "the source of a mount no longer exists on this host",
        "check that the path in the message exists; hostlet retries automatically",
    ),
    rule(
        &["mounting", "permission denied"],
        "this host does not permit a volume mount",
        "check that root can read the path in the message (network file systems often forbid it), and the kernel log \
         (journalctl -k | grep -i denied)",
    ),
    rule(
        &["failed to mkdir"],
        "the path of a hostPath volume does not exist on this host and cannot be created",
        "create it beforehand, or correct hostPath.path; with type: Directory or File a missing path is \
         reported earlier",
    ),
    rule(
        &["failed to stat"],
        "the path of a hostPath volume cannot be accessed",
        "check that root can read the path in the message on this host",
    ),
    rule(
        &["mkdir ", "not a directory"],
        "a component of its workingDir or of a mountPath is a file",
        "correct workingDir or the mountPath in the message: every component must be a directory in the image",
    ),
    rule(
        &["no users found"],
        "the user in its image's configuration is not in the image's /etc/passwd",
        "set securityContext.runAsUser to a UID, or correct USER in the image",
    ),
    rule(
        &["no groups found"],
        "the group in its image's configuration is not in the image's /etc/group",
        "set securityContext.runAsUser and runAsGroup to numeric IDs, or correct USER in the image",
    ),
    rule(
        &["unable to find user"],
        "the user in its image's configuration is not in the image's /etc/passwd",
        "set securityContext.runAsUser to a UID, or correct USER in the image",
    ),
    rule(
        &["unable to find group"],
        "the group in its image's configuration is not in the image's /etc/group",
        "set securityContext.runAsUser and runAsGroup to numeric IDs, or correct USER in the image",
    ),
    rule(
        &["cannot load seccomp profile"],
        "its seccomp profile is not on this host",
        "put the file at the path in the message, or set seccompProfile.type to RuntimeDefault; \
         localhostProfile is a path \
         below the directory seccomp of hostlet's root directory",
    ),
    rule(
        &["decoding seccomp profile failed"],
        "its seccomp profile is not valid JSON",
        "correct the file in the message",
    ),
    rule(
        &["seccomp is not"],
        "this host's kernel or runtime does not support seccomp",
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
        "load the profile (apparmor_parser -r FILE; aa-status lists the loaded ones), or remove appArmorProfile",
    ),
    rule(
        &["selinux"],
        "its SELinux label cannot be applied",
        "correct securityContext.seLinuxOptions; without SELinux on this host (getenforce) remove them",
    ),
    rule(
        &["error gathering device information"],
        "a device that it requires does not exist on this host",
        "check that the device in the message exists (ls -l /dev)",
    ),
    rule(&["oom-killed (memory limit too low"], "its memory limit is too low for anything to start", MEMORY),
    rule(
        &["cannot start a stopped process"],
        "it was killed before it could start, usually because its memory limit is too low",
        MEMORY,
    ),
    rule(&["cgroup", "cannot allocate memory"], "its memory limit is too low for anything to start", MEMORY),
    rule(&["unable to set memory limit"], "its memory limit is lower than its current usage", MEMORY),
    rule(&["minimum memory limit"], "its memory limit is below the possible minimum", MEMORY),
    rule(
        &["cpu.", "invalid argument"],
        "the kernel rejects its CPU limit",
        "correct resources.limits.cpu of the container: at most that of the pod's cgroup or of this host",
    ),
    rule(
        &["/proc/sys/"],
        "the kernel rejects one of the pod's sysctls or does not have it",
        "correct spec.securityContext.sysctls: check the possible values on this host (sysctl NAME)",
    ),
    rule(
        &["oom_score_adj", "permission denied"],
        "the container runtime is not allowed to set its OOM score",
        "set restrict_oom_score_adj = true in containerd's configuration, or run containerd with CAP_SYS_RESOURCE",
    ),
    rule(
        &["error setting rlimit"],
        "the container runtime is not allowed to set its resource limits (ulimit)",
        "check the limits of the containerd service (systemctl show containerd | grep Limit)",
    ),
    rule(
        &["cgroup"],
        "its cgroup cannot be created or configured",
        "correct the container's resources according to the message, and check that this host's cgroup file \
         system is writable \
         (mount | grep cgroup)",
    ),
    rule(
        &["failed to mount rootfs"],
        "the root file system of its image cannot be mounted",
        "check the kernel log (journalctl -k), and that the kernel supports overlay (modprobe overlay); the disk of \
         /var/lib/containerd must not be an overlay itself",
    ),
    rule(
        &["content digest", "not found"],
        "a part of its image is missing from the container runtime's store",
        "remove the image (crictl rmi IMAGE, or ctr -n k8s.io images rm IMAGE), so that it is pulled again",
    ),
    rule(
        &["snapshot", "does not exist"],
        "a part of its image is missing from the container runtime's store",
        "remove the image (crictl rmi IMAGE, or ctr -n k8s.io images rm IMAGE), so that it is pulled again",
    ),
    rule(
        &["failed to get image from containerd"],
        "its image was removed in the meantime",
        "wait: hostlet pulls it again",
    ),
    rule(
        &["sandbox", "is not running"],
        "the pod's sandbox stopped in the meantime",
        "wait: hostlet creates a new one; if it happens repeatedly, check the container runtime's log \
         (journalctl -u containerd)",
    ),
    rule(&["failed to find sandbox"], "the pod's sandbox is gone", "wait: hostlet creates a new one"),
    rule(
        &["operation not permitted"],
        "the container runtime is not allowed to do that on this host",
        "check that containerd runs as root with all capabilities (not in an unprivileged container), and what \
         the kernel \
         says (journalctl -k | grep -i denied)",
    ),
];
