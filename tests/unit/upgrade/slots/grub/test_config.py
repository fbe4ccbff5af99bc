"""GRUB's config: slots, fallback, the reset entry, kernel arguments."""

import pytest

from talos.system.errors import UserError
from talos.upgrade.slots.grub.config import Entry, make_arguments, make_config, make_start, parse_config

A = Entry(slot="A", version="v1.15.0", arguments=("pti=on", "console=ttyS0"))
B = Entry(slot="B", version="v1.16.0", arguments=("pti=on",))


def test_one_slot() -> None:
    text = make_config([A], "A")
    assert 'set default="A - Talos v1.15.0"' in text
    assert "set fallback" not in text
    assert "set timeout=3" in text
    assert "  linux /A/vmlinuz pti=on console=ttyS0 $crashlog\n  initrd /A/initramfs\n" in text


def test_the_other_slot_is_the_way_back() -> None:
    lines = make_config([A, B], "B").splitlines()
    assert 'set default="B - Talos v1.16.0"' in lines
    assert "set fallback=1" in lines
    titles = [line.split('"')[1] for line in lines if line.startswith("menuentry")]
    assert titles == ["B - Talos v1.16.0", "A - Talos v1.15.0", "Reset B - Talos v1.16.0"]


def test_the_reset_entry_wipes_config_and_data() -> None:
    reset = make_config([A], "A").partition('menuentry "Reset')[2]
    assert "pti=on console=ttyS0 talos.experimental.wipe=system:EPHEMERAL,STATE $crashlog\n" in reset


def test_what_a_shell_would_take_apart_is_quoted() -> None:
    entry = Entry(slot="A", version="v1", arguments=('dyndbg="file a +p; b"', "a$b"))
    assert "linux /A/vmlinuz 'dyndbg=\"file a +p; b\"' 'a$b' $crashlog\n" in make_config([entry], "A")


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ([], "quiet talos.platform=metal console=ttyS0 console=tty0"),
        (["a=1"], "quiet talos.platform=metal console=ttyS0 console=tty0 a=1"),
        (["-console"], "quiet talos.platform=metal"),
        (["-console=tty0", "-quiet"], "talos.platform=metal console=ttyS0"),
    ],
)
def test_arguments(extra: list[str], expected: str) -> None:
    assert " ".join(make_arguments("quiet", extra)) == expected


def test_arguments_of_the_image_replace_defaults_of_the_same_name() -> None:
    arguments = make_arguments("quiet talos.platform=nocloud console=ttyS1")
    assert arguments == ("quiet", "talos.platform=nocloud", "console=ttyS1")


@pytest.mark.parametrize("word", ["", "a'b", "a\nb"])
def test_an_argument_that_would_break_the_file_is_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"machine\.install\.extraKernelArgs: .* can't be a kernel argument"):
        make_arguments("", [word])


def test_what_was_made_is_parsed() -> None:
    odd = Entry(slot="B", version="v1.16.0-beta.1", arguments=("pti=on", 'dyndbg="file a +p; b"', "a$b"))
    assert parse_config(make_config([A, odd], "B")) == ((odd, A), "B")
    assert parse_config(make_config([A], "A")) == ((A,), "A")


@pytest.mark.parametrize("text", ["", "hello", 'set default="A - x"', 'set default="B - x"\n' + "x" * 9999])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="there is no default slot"):
        parse_config(text)


def test_a_slot_without_a_kernel_and_open_quotes_are_refused() -> None:
    text = make_config([A], "A")
    with pytest.raises(ValueError, match="slot A has no kernel"):
        parse_config(text.replace("  linux ", "  module ", 1))
    with pytest.raises(ValueError, match="quotation"):
        parse_config(text.replace("pti=on", "'pti=on", 1))


def test_only_the_other_slot_is_booted_once() -> None:
    lines = [line.strip() for line in make_config([A, B], "A").splitlines()]
    start = lines.index('if [ "$next_entry" = "B" ]; then')
    assert lines[start + 1 : start + 6] == [
        "set next_entry=",
        "if save_env --file /grub/grubenv next_entry; then",
        'set default="B - Talos v1.16.0"',
        "set fallback=0",
        "set trial=talos.trial",
    ]
    assert "linux /A/vmlinuz pti=on console=ttyS0 $crashlog $trial" in lines
    assert "linux /B/vmlinuz pti=on $crashlog $trial" in lines
    assert "next_entry" not in make_config([A], "A")


def test_without_a_config_both_slots_are_started_with_the_arguments_of_the_image() -> None:
    text = make_start("pti=on")
    assert text.startswith("if [ -s /grub/grub.cfg ]; then\n  source /grub/grub.cfg\nfi\n")
    found = [line.strip() for line in text.splitlines() if line.startswith("  linux")]
    arguments = "pti=on talos.platform=metal console=ttyS0 console=tty0 $crashlog"
    assert found == [f"linux /{slot}/vmlinuz {arguments}" for slot in "AB"]
