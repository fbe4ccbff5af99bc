"""``talosctl completion``: scripts that make a shell call ``talosctl __complete``.

The protocol is the one that cobra documents, so that the scripts of the Go client work, too: the words up to
the cursor as arguments, the last one perhaps empty; one offer a line, with a tab and its meaning unless the
command was ``__completeNoDesc``; a last line of a colon and a number, the directive's bits.
"""

import sys
from collections.abc import Sequence

from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.complete import Completion, Directive, complete
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output import console

COMPLETE = "__complete"
COMPLETE_BARE = "__completeNoDesc"
# bash shows no meanings. It splits words at `=` and `:`, hence the line is read instead, and of an offer only
# what is right of the last such character is put in.
_BASH = """# bash completion for talosctl
__talosctl_complete() {
    local words out line cur directive prefix=""
    COMPREPLY=()
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ "${COMP_LINE:0:COMP_POINT}" == *[[:space:]] ]] && words+=("")
    cur="${words[${#words[@]}-1]}"
    out="$("${words[0]}" __completeNoDesc "${words[@]:1}" 2>/dev/null)" || return
    directive="${out##*:}"
    [[ $cur == -*=* ]] && cur="${cur#*=}"
    [[ $cur == *[:=]* ]] && prefix="${cur%"${cur##*[:=]}"}"
    while IFS= read -r line; do
        COMPREPLY+=("${line#"$prefix"}")
    done < <(printf '%s' "${out%:*}")
    (( directive & 2 )) && compopt -o nospace 2>/dev/null
    if (( ! (directive & 4) && ! ${#COMPREPLY[@]} )); then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
    fi
}
complete -F __talosctl_complete talosctl
"""
_ZSH = """#compdef talosctl
compdef _talosctl talosctl
_talosctl() {
    local out line directive
    local -a offers space prefix
    out="$(${words[1]} @COMPLETE@ "${(@)words[2,CURRENT]}" 2>/dev/null)" || return
    directive="${out##*:}"
    for line in "${(@f)${out%:*}}"; do
        [[ -z $line ]] || offers+=("${${line//:/\\:}/$'\t'/:}")
    done
    (( directive & 2 )) && space=(-S '')
    [[ ${words[CURRENT]} == -*=* ]] && prefix=(-P "${words[CURRENT]%%=*}=")
    if (( ${#offers} )); then
        _describe 'talosctl' offers $space $prefix
    elif (( ! (directive & 4) )); then
        _files
    fi
}
if [ "$funcstack[1]" = "_talosctl" ]; then
    _talosctl
fi
"""
_FISH = """# fish completion for talosctl
function __talosctl_offers
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l out ($words[1] @COMPLETE@ $words[2..-1] "$current" 2>/dev/null); or return
    set -l directive (string sub -s 2 -- $out[-1])
    set -l prefix (string match -r -- '^-[^=]*=' "$current")
    set -e out[-1]
    for line in $out
        echo "$prefix$line"
    end
    if test (count $out) -eq 0 -a (math "floor($directive / 4) % 2") -eq 0
        __fish_complete_path "$current"
    end
end
complete -c talosctl -f -a '(__talosctl_offers)'
"""
_POWERSHELL = """# powershell completion for talosctl
Register-ArgumentCompleter -Native -CommandName 'talosctl' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    if ($wordToComplete -eq '') { $words += '""' }
    $prefix = ''
    if ($wordToComplete -match '^(-[^=]*=)') { $prefix = $Matches[1] }
    $out = & $commandAst.CommandElements[0].Value @COMPLETE@ @words 2>$null
    foreach ($line in $out) {
        if (-not $line.StartsWith(':')) {
            $name, $help = $line -split "`t", 2
            if (-not $help) { $help = $name }
            $text = "$prefix$name"
            [System.Management.Automation.CompletionResult]::new($text, $name, 'ParameterValue', $help)
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
    return text.replace("@COMPLETE@", COMPLETE if with_descriptions else COMPLETE_BARE)


def _run(invocation: Invocation) -> int:
    with_descriptions = not invocation.flags.is_set("no-descriptions")
    console.write(script(invocation.command.name, with_descriptions=with_descriptions))
    return 0


def print_completion(root: Command, command: str, words: Sequence[str]) -> None:
    """The hidden commands that the scripts call."""
    # PowerShell passes no empty argument: its scripts quote one.
    try:
        found = complete(root, ["" if word == '""' else word for word in words or [""]])
    except UserError:
        # A command that does not work here has nothing to offer.
        found = Completion(offers=(), directive=Directive.NO_FILE_COMP)
    for offer, meaning in found.offers:
        console.write_line(f"{offer}\t{meaning}" if command == COMPLETE and meaning else offer)
    console.write_line(f":{int(found.directive)}")
    sys.stdout.flush()
    console.note(f"Completion ended with directive: {found.directive.title}")


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
