"""The rules language: what is accepted, and the errors."""

import pytest

from talos.config.check.validate import Mode, validate
from talos.config.read.loader import load
from talos.config.udev_rules import parse_rules, substitutions
from talos.system.errors import UserError


def test_a_rule() -> None:
    (rule,) = parse_rules(['SUBSYSTEM=="drm", KERNEL=="renderD*", GROUP="44", MODE="0660"'])
    assert [(item.key, item.operator, item.value) for item in rule.tests] == [
        ("SUBSYSTEM", "==", "drm"),
        ("KERNEL", "==", "renderD*"),
    ]
    assert [(item.key, item.value) for item in rule.assignments] == [("GROUP", "44"), ("MODE", "0660")]


def test_comments_lines_and_continuations() -> None:
    text = (
        '# disks\n\nKERNEL=="sd?", \\\n  ATTR{queue/scheduler}="none"\nKERNEL=="vda", SYMLINK+="boot root"\n'
    )
    rules = parse_rules([text])
    assert [rule.place for rule in rules] == ["rules[0] line 3", "rules[0] line 5"]
    assert rules[0].assignments[0].name == "queue/scheduler"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('KERNEL=="sda", RUN+="/bin/true"', "rules[0]: RUN is not supported: there are no programs"),
        ('PROGRAM=="/bin/x", MODE="0600"', "PROGRAM is not supported"),
        ('IMPORT{program}="scsi_id", MODE="0600"', "IMPORT is not supported"),
        ('SUBSYSTEM=="net", NAME="lan0"', "LinkAliasConfig"),
        ('GOTO="end"', "rules have no labels"),
        ('KERNEL=="sda"', "assigns nothing"),
        ('KERNEL=="sda", MODE="rw"', 'MODE="rw" is no mode'),
        ('KERNEL=="sda", SYMLINK+="../etc/passwd"', "leaves /dev"),
        ('KERNEL=="sda", ATTR{../x}="1"', "leaves the device"),
        ('KERNEL=="sda", MODE+="0600"', "can't be assigned with +="),
        ('MODE=="0600", GROUP="disk"', "MODE can't be tested"),
        ('KERNEL="sda"', "KERNEL can't be assigned"),
        ('ATTR=="1", MODE="0600"', "ATTR is written as ATTR{name}"),
        ('KERNEL{x}=="1", MODE="0600"', "KERNEL is written as"),
        ('COLOR=="1", MODE="0600"', "COLOR is unknown"),
        ('KERNEL=="sda" MODE', "can't be read from column 15 on: MODE"),
        ("KERNEL==sda", "can't be read from column 1"),
        ('KERNEL=="sda", SYMLINK+="x%c"', "%c in SYMLINK is not supported"),
        ('KERNEL=="sda", OPTIONS+="watch"', 'OPTIONS "watch" is not supported'),
        ('KERNEL==e"sda", MODE="0600"', 'e"..." is not supported'),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_rules([text])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_second_rule_is_named() -> None:
    with pytest.raises(UserError, match=r"rules\[1\]"):
        parse_rules(['KERNEL=="a", MODE="0600"', 'KERNEL=="b", RUN="x"'])


def test_substitutions() -> None:
    assert [part for part in substitutions("a-%k-$attr{size}%%$$%s{x}$env{ID_PATH}") if part != ("", "")] == [
        ("", "a-"),
        ("kernel", ""),
        ("", "-"),
        ("attr", "size"),
        ("", "%"),
        ("", "$"),
        ("attr", "x"),
        ("env", "ID_PATH"),
    ]


def test_validation_names_place_and_remedy() -> None:
    text = """\
apiVersion: v1alpha1
kind: UdevRulesConfig
rules:
    - KERNEL=="sda", MODE="0600"
    - KERNEL=="sdb", RUN+="/bin/true"
"""
    report = validate(load(text.encode()), Mode.METAL, partial=True)
    (problem,) = [problem for problem in report.errors if "RUN" in problem.message]
    assert problem.path == "rules[1]"
    assert problem.mark is not None
