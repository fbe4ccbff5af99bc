"""A kernel that writes its command line to the serial line and resets, or hangs: GRUB starts it in a second.

For GRUB on firmware without UEFI, which enters it in 32 bits with the address of the boot parameters in ESI
(https://docs.kernel.org/arch/x86/boot.html).
"""

import struct

WRITE_TEXT = b"".join(
    (
        b"\xac\x84\xc0",  # next: lodsb; test al, al
        b"\x74\x14",  # jz end
        b"\x88\xc4\x66\xba\xfd\x03",  # mov ah, al; mov dx, 0x3fd
        b"\xec\xa8\x20\x74\xfb",  # busy: in al, dx; test al, 0x20; jz busy
        b"\x88\xe0\x66\xba\xf8\x03\xee",  # mov al, ah; mov dx, 0x3f8; out dx, al
        b"\xeb\xe7",  # jmp next
    )
)
"""Writes what ESI (RSI in 64 bits) points at to the serial line, up to its NUL, and goes on behind itself."""
CODE = b"".join(
    (
        b"\x8b\xb6\x28\x02\x00\x00",  # mov esi, [esi + 0x228]  the command line
        WRITE_TEXT,
        b"\x66\xba\xf9\x0c\xb0\x06\xee",  # mov dx, 0xcf9; mov al, 6; out dx, al
        b"\xf4\xeb\xfd",  # hlt, for ever
    )
)
_SETUP, _PAYLOAD = 1024, 4096
"""Bytes of the boot sector with one sector of set-up, and of what follows them."""


_RESET = b"\x66\xba\xf9\x0c\xb0\x06\xee"
_NOTHING = b"\x90"


def make_kernel(*, hangs: bool = False) -> bytes:
    """The file. One that ``hangs`` leaves it to others to reset the machine."""
    code = CODE.replace(_RESET, _NOTHING * len(_RESET)) if hangs else CODE
    setup = bytearray(_SETUP)
    for place, layout, value in (
        (0x1F1, "<B", 1),  # setup_sects
        (0x1F4, "<I", _PAYLOAD // 16),  # syssize
        (0x1FE, "<H", 0xAA55),
        (0x200, "<H", 0x66EB),
        (0x202, "<4s", b"HdrS"),
        (0x206, "<H", 0x020C),  # the protocol's version
        (0x211, "<B", 1),  # loaded high
        (0x214, "<I", 0x100000),  # code32_start
        (0x22C, "<I", 0x7FFFFFFF),  # initrd_addr_max
        (0x230, "<I", 0x1000),  # kernel_alignment
        (0x234, "<B", 1),  # relocatable
        (0x238, "<I", 2047),  # cmdline_size
        (0x258, "<Q", 0x100000),  # pref_address
        (0x260, "<I", 0x10000),  # init_size
    ):
        struct.pack_into(layout, setup, place, value)
    return bytes(setup) + code.ljust(_PAYLOAD, b"\0")
