"""System calls that a program does not get: sockets, other processes' memory, other programs, namespaces, the kernel.

A filter in classic BPF, as seccomp(2) describes it. What is refused fails with EPERM, so that Python reports an
OSError; clone3 fails with ENOSYS, upon which the C library takes clone, whose flags can be read.
"""

import ctypes
import errno
import os
import struct

from trex.solver.sandbox import system

# name: number on x86-64, on 64-bit ARM (None where it has no such call)
REFUSED = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "sendto": (44, 206),
    "sendmsg": (46, 211), "sendmmsg": (307, 269), "accept": (43, 202), "accept4": (288, 242),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "execve": (59, 221), "execveat": (322, 281), "uselib": (134, None),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "mknod": (133, None), "mknodat": (259, 33),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "syslog": (103, 116), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "quotactl": (179, 60),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "fanotify_init": (300, 262), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "personality": (135, 92),
    # memory that no limit of the process counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196),
    "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "socketpair": (53, 199), "setsockopt": (54, 208), "inotify_add_watch": (254, 27),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
    "mbind": (237, 235), "set_mempolicy": (238, 237),
}  # fmt: skip
# what one process of a user may do to the others
OF_OTHERS = {
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122),
}  # fmt: skip
# what one process of a user may do to the user's files anywhere, which Landlock does not handle
OF_FILES = {
    "chmod": (90, None), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "lchown": (94, None),
    "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "removexattr": (197, 14),
    "lremovexattr": (198, 15),
}  # fmt: skip
KILL, TKILL, TGKILL, SIGQUEUE, TGSIGQUEUE = ((62, 129), (200, 130), (234, 131), (129, 138), (297, 240))
CLONE, CLONE3, IOCTL, PRLIMIT = (56, 220), (435, 435), (16, 29), (302, 261)
NAMESPACES = 0x7E020000  # CLONE_NEW*
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # typing into a terminal
ARCHITECTURE = 0xC00000B7 if system.ARM else 0xC000003E
X32 = 0x40000000  # calls of the x32 interface on x86-64
SET_MODE_FILTER = 1
SECCOMP = 277 if system.ARM else 317

LOAD, EQUAL, AT_LEAST, AND_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCH, ARGUMENT = 0, 4, 16  # offsets in seccomp_data; arguments have eight bytes each
ALLOW, DENY, MISSING, DIE = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000


def install(own_namespace: bool, own_user: bool) -> None:
    """Filter the calls of this process and of all that it starts; there is no way back. Raises OSError.

    own_namespace: the process is in a process namespace of its own, so that it may signal whom it sees; otherwise it
    may signal itself only. own_user: nobody else's files and processes are this user's.
    """
    program = _program(own_namespace, own_user)
    filters = b"".join(struct.pack("<HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(filters, len(filters))
    header = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(buffer))
    system.prctl(system.SET_NO_NEW_PRIVS, 1)
    system.syscall(SECCOMP, ctypes.c_uint(SET_MODE_FILTER), ctypes.c_uint(0), ctypes.create_string_buffer(header))


def _program(own_namespace: bool, own_user: bool) -> list[tuple[int, int, int, int]]:
    """Instructions (code, jump if true, jump if false, value)."""
    here = int(system.ARM)
    lines = [
        (LOAD, 0, 0, ARCH), (EQUAL, 1, 0, ARCHITECTURE), (RETURN, 0, 0, DIE), (LOAD, 0, 0, NUMBER),
        *([] if system.ARM else [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, DENY)]),
        (EQUAL, 0, 1, CLONE3[here]), (RETURN, 0, 0, MISSING),
        (EQUAL, 0, 4, CLONE[here]), (LOAD, 0, 0, ARGUMENT), (AND_SET, 0, 1, NAMESPACES), (RETURN, 0, 0, DENY),
        (RETURN, 0, 0, ALLOW),
        (EQUAL, 0, 5, IOCTL[here]), (LOAD, 0, 0, ARGUMENT + 8), (EQUAL, 1, 0, TIOCSTI), (EQUAL, 0, 1, TIOCLINUX),
        (RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW),
    ]  # fmt: skip
    others = {} if own_namespace else OF_OTHERS if own_user else OF_OTHERS | OF_FILES
    for numbers in (REFUSED | others).values():
        if numbers[here] is not None:
            lines += [(EQUAL, 0, 1, numbers[here]), (RETURN, 0, 0, DENY)]  # type: ignore[list-item]
    if not own_namespace:
        own = os.getpid()
        for numbers in (KILL, TGKILL, SIGQUEUE, TGSIGQUEUE):
            lines += [
                (EQUAL, 0, 4, numbers[here]), (LOAD, 0, 0, ARGUMENT), (EQUAL, 1, 0, own), (RETURN, 0, 0, DENY),
                (RETURN, 0, 0, ALLOW),
            ]  # fmt: skip
        lines += [(EQUAL, 0, 1, TKILL[here]), (RETURN, 0, 0, DENY)]
        # limits of other processes
        lines += [
            (EQUAL, 0, 5, PRLIMIT[here]), (LOAD, 0, 0, ARGUMENT), (EQUAL, 2, 0, 0), (EQUAL, 1, 0, own),
            (RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW),
        ]  # fmt: skip
    return [*lines, (RETURN, 0, 0, ALLOW)]
