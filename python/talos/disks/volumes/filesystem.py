"""The filesystem of a volume: found or made, inside of its encryption where it has one."""

from dataclasses import dataclass

from talos.disks.disk import make_wipe_hint
from talos.disks.volumes.blocks import EXT4, XFS, Blocks, NewFilesystem, Tables
from talos.disks.volumes.volume import RAW, WantedVolume
from talos.system.block import ext4
from talos.system.block.blkid import Content
from talos.system.block.luks_header import MARK
from talos.system.errors import UserError
from talos.system.logging import Log

LUKS = "crypto_LUKS"
"""libblkid's name for an encrypted device."""
XFS_MAGIC = b"XFSB"
"""What a superblock begins with, also one that libblkid refuses because its checksum is wrong."""


@dataclass(frozen=True, slots=True)
class MadeFilesystem:
    """A filesystem, and the mapped device that it is on when it is encrypted."""

    content: Content
    mapped: str = ""


async def make_filesystem(blocks: Blocks, wanted: WantedVolume, device: str, log: Log) -> MadeFilesystem:
    """Format a device, inside of its encryption where it has one; without a filesystem only that."""
    encryption = wanted.encryption
    if encryption and not encryption.configured:
        await encryption.forget()
        encryption = None
    mapped = await encryption.create(device) if encryption else ""
    target = mapped or device
    if wanted.has_filesystem:
        log.info(f"volume {wanted.label}: making its filesystem", device=target)
        new = NewFilesystem(
            type=wanted.filesystem,
            label=wanted.filesystem_label,
            size=(await blocks.probe(target)).size,
            min_group=wanted.min_group,
        )
        await blocks.format(target, new)
    if encryption:
        await encryption.publish(device)
    return MadeFilesystem(await blocks.probe(target), mapped)


async def find_filesystem(
    blocks: Blocks, wanted: WantedVolume, device: str, log: Log
) -> MadeFilesystem | None:
    """The wanted content of a partition or disk; None when that is blank. UserError for anything else."""
    encryption = wanted.encryption
    content = await blocks.probe(device)
    if wanted.filesystem == RAW and encryption is None:
        return MadeFilesystem(content)
    if content.name == LUKS:
        if encryption is None:
            raise UserError(
                f"{device} is encrypted, and the config has no encryption for it",
                where=wanted.label,
                hint="add its encryption to the config",
            )
        mapped = await encryption.open(device)
        inside: Content | None = await blocks.probe(mapped)
        if wanted.has_filesystem:  # else what is there is its own: no one else has the keys
            inside = await _find_content(blocks, wanted, mapped, inside, log)
        if inside is None:
            raise refuse_content(wanted, device, "is encrypted, and empty inside: it is not formatted")
        await encryption.keep_slots(device)
        return MadeFilesystem(inside, mapped)
    if encryption is None:
        found = await _find_content(blocks, wanted, device, content, log)
        return None if found is None else MadeFilesystem(found)
    if content.kind:
        reason = f"holds {content.name}, which is not encrypted: it is neither formatted nor encrypted"
        raise refuse_content(wanted, device, reason)
    head = await blocks.read_head(device)
    if not head.startswith(MARK) and any(head):
        raise refuse_content(wanted, device, "holds unrecognised data: it is not encrypted")
    return None


async def _find_content(
    blocks: Blocks, wanted: WantedVolume, device: str, content: Content, log: Log
) -> Content | None:
    if (await blocks.read_head(device)).startswith(ext4.MARK):
        return None
    if content.name == wanted.filesystem:
        return content
    if content.kind:
        name = f"{content.name} ({content.label})" if content.label else content.name
        raise refuse_content(
            wanted, device, f"holds {name}, no {wanted.filesystem}: it is not formatted over"
        )
    return None if await is_blank(blocks, wanted, device, log) else await blocks.probe(device)


async def is_blank(blocks: Tables, wanted: WantedVolume, device: str, log: Log) -> bool:
    """Whether nothing can be lost here; False when its filesystem is there again. UserError for others."""
    head = await blocks.read_head(device)
    found = XFS if head.startswith(XFS_MAGIC) else EXT4 if ext4.has_superblock(head) else ""
    if found and found == wanted.filesystem:
        log.warning(f"volume {wanted.label}: its superblock is broken, repairing it", device=device)
        if not await blocks.repair(device, found, force=False):
            await blocks.repair(device, found, force=True)
        if (await blocks.probe(device)).name == found:
            return False
    if any(head):
        raise refuse_content(wanted, device, "holds unrecognised data: it is not formatted")
    return True


def refuse_content(wanted: WantedVolume, device: str, reason: str) -> UserError:
    """The error for content that is not overwritten, with the command that erases it."""
    return UserError(f"{device} {reason}", where=wanted.label, hint=make_wipe_hint(device))
