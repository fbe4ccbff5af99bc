"""``talosctl completion``: scripts that make a shell ask ``talosctl __complete``."""

from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.complete import offers
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output import console

# Every script calls `talosctl __complete <mode> <words...>`. It prints one offer a line, a tab and
# its meaning in the mode `described`; the last line is `:files` or `:end`.
_BASH = """# bash completion for talosctl
__talosctl_complete() {
    local cur words out line last
    COMPREPLY=()
    words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    cur="${COMP_WORDS[COMP_CWORD]}"
    out="$("${COMP_WORDS[0]}" __complete bare "${words[@]}" 2>/dev/null)" || return
    last="${out##*$'\\n'}"
    while IFS= read -r line; do
        [[ $line == :* || -z $line ]] || COMPREPLY+=("$line")
    done <<<"$out"
    if [[ $last == ":files" ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
    elif [[ ${#COMPREPLY[@]} -eq 1 && ( ${COMPREPLY[0]} == */ || ${COMPREPLY[0]} == *= ) ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F __talosctl_complete talosctl
"""
_ZSH = """#compdef talosctl
compdef _talosctl talosctl
_talosctl() {
    local out last line
    local -a offers
    out="$(${words[1]} __complete @MODE@ "${(@)words[2,CURRENT]}" 2>/dev/null)" || return
    last="${out##*$'\\n'}"
    for line in "${(@f)out}"; do
        [[ $line == :* || -z $line ]] || offers+=("${${line//:/\\\\:}/$'\\t'/:}")
    done
    (( ${#offers} )) && _describe 'talosctl' offers
    [[ $last == ":files" ]] && _files
}
if [ "$funcstack[1]" = "_talosctl" ]; then
    _talosctl
fi
"""
_FISH = """# fish completion for talosctl
function __talosctl_offers
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l out ($words[1] __complete @MODE@ $words[2..-1] -- "$current" 2>/dev/null)
    test "$out[-1]" = ":files"; and __fish_complete_path "$current"
    for line in $out
        string match -q ':*' -- $line; or echo $line
    end
end
complete -c talosctl -f -a '(__talosctl_offers)'
"""
_POWERSHELL = """# powershell completion for talosctl
Register-ArgumentCompleter -Native -CommandName 'talosctl' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($wordToComplete -eq '') { $words += '""' }
    $out = & $commandAst.CommandElements[0].Value __complete @MODE@ @words 2>$null
    foreach ($line in $out) {
        if (-not $line.StartsWith(':')) {
            $name, $help = $line -split "`t", 2
            if (-not $help) { $help = $name }
            [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $help)
        }
    }
}
"""
_PLACES = {
    "bash": "talosctl completion bash > /etc/bash_completion.d/talosctl",
    "zsh": 'talosctl completion zsh > "${fpath[1]}/_talosctl"',
    "fish": "talosctl completion fish | source",
    "powershell": "talosctl completion powershell | Out-String | Invoke-Expression",
}


def script(shell: str, *, with_descriptions: bool) -> str:
    """The text a shell has to read."""
    text = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}[shell]
    return text.replace("@MODE@", "described" if with_descriptions else "bare")


def _run(invocation: Invocation) -> int:
    with_descriptions = not invocation.flags.is_set("no-descriptions")
    console.write(script(invocation.command.name, with_descriptions=with_descriptions))
    return 0


def print_offers(argv: list[str]) -> int:
    """The hidden command that the scripts call."""
    from talos.talosctl.tree import ROOT

    mode, *line = argv or ["bare"]
    if "--" in line[:-1] and line[-2] == "--":
        line = [*line[:-2], line[-1]]  # fish's way to pass an empty last argument
    found, files = offers(ROOT, [text if text != '""' else "" for text in line])
    for text, meaning in found:
        console.write_line(f"{text}\t{meaning}" if mode == "described" and meaning else text)
    console.write_line(":files" if files else ":end")
    return 0


def _shell(name: str) -> Command:
    return Command(
        name=name,
        summary=f"Print the completion script for {name}",
        details=f"Prints the completion script for {name}. Use it with:\n\n  {_PLACES[name]}",
        flags=(
            Flag(
                name="no-descriptions",
                type=Type.BOOL,
                default="false",
                help="offer completions without their meaning",
            ),
        ),
        run=_run,
    )


COMMAND = Command(
    name="completion",
    summary="Print a script for the shell's completion",
    commands=tuple(_shell(name) for name in _PLACES),
)
