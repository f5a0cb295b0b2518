"""Tries every way to the network but TCP connections, and says which of them were not refused."""

import ctypes
import errno
import mmap
import os
import platform
import socket
import sys

port = int(sys.argv[1])
here = ("127.0.0.1", port)
libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, way):
    try:
        way()
        print("open:", name)
    except OSError as error:
        if error.errno != errno.EACCES:
            print("open:", name, error)


def make(family, kind, protocol=0):
    return lambda: socket.socket(family, kind, protocol).close()


def call(number, *arguments):
    def way():
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    return way


INET, INET6 = socket.AF_INET, socket.AF_INET6
STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 3, 5
for family in [INET, INET6]:
    for protocol in [262, 256, 132, 33]:  # MPTCP, SMC, SCTP, DCCP
        attempt(f"stream {family} {protocol}", make(family, STREAM, protocol))
    for kind in [DGRAM, RAW, 4, SEQPACKET, 6, 10, DGRAM | socket.SOCK_CLOEXEC]:
        attempt(f"kind {family} {kind}", make(family, kind))
    attempt(f"ping {family}", make(family, DGRAM, 1))
# X.25, packets, RDS, CAN, TIPC, Bluetooth, the kernel's ciphers, virtual machines, KCM, SMC, XDP.
for family in [9, 17, 21, 29, 30, 31, 38, 40, 41, 43, 44]:
    for kind in [STREAM, DGRAM, RAW, SEQPACKET]:
        attempt(f"family {family} {kind}", make(family, kind))
attempt("pair", lambda: socket.socketpair(30, DGRAM))

FASTOPEN = 0x20000000
attempt("plain", lambda: socket.create_connection(here, 5))
attempt("fast", lambda: socket.socket(INET, STREAM).sendto(b"x", FASTOPEN, here))
attempt("fast message", lambda: socket.socket(INET, STREAM).sendmsg([b"x"], [], FASTOPEN, here))
is_x86 = platform.machine() == "x86_64"
attempt("fast messages", call(307 if is_x86 else 269, -1, None, 0, FASTOPEN))
attempt("protocol over TCP", lambda: socket.socket(INET, STREAM).setsockopt(6, 31, b"smc"))
attempt("ring", call(425, 1, ctypes.create_string_buffer(120)))

if is_x86:
    attempt("short pointers", call(0x40000000 | 41, INET, DGRAM, 0))
    # socket(AF_INET, SOCK_DGRAM, 0) as a program of 32 bits asks for it: push rbx, four registers, int 0x80, pop, ret.
    code = bytes.fromhex("53 b867010000 bb02000000 b902000000 ba00000000 cd80 5b c3")
    place = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    place.write(code)
    ask = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(place)))
    if (child := os.fork()) == 0:
        os._exit(0 if ask() >= 0 else 1)
    if os.waitpid(child, 0)[1] == 0:
        print("open: 32 bits")

# What programs need all the same.
socket.socketpair()
socket.socket(socket.AF_UNIX, STREAM)
socket.socket(socket.AF_NETLINK, RAW)
socket.socket(INET, STREAM | socket.SOCK_NONBLOCK, socket.IPPROTO_TCP)
listener = socket.create_server(("127.0.0.1", 0))
socket.socket(INET6, STREAM).setsockopt(6, 1, 1)
print("done")
