"""``gpu-tracker completion``: scripts for shells to complete the command line."""

from __future__ import annotations

import re

from gpu_tracker.cli import COMMANDS, options, output
from gpu_tracker.cli.help_texts import help_of
from gpu_tracker.cli.shells import FILES, FOLDERS, PROCESSES, PROGRAM, Choice, Line, bash, fish, zsh
from gpu_tracker.errors import ParameterError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.cli.help_texts import HelpOption, HelpText

TEXT = """
Prints the completion script of a shell (bash, zsh or fish) for gpu-tracker.

Usage:
  gpu-tracker completion <shell>

Options:
  -h --help             Print this text.
  -v --version          Print the version.

To install it:
  bash  echo 'eval "$(gpu-tracker completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(gpu-tracker completion zsh)"' >> ~/.zshrc, after compinit
  fish  gpu-tracker completion fish > ~/.config/fish/completions/gpu-tracker.fish
"""

_SCRIPTS = {'bash': bash.script, 'zsh': zsh.script, 'fish': fish.script}
_SIZES = (
    *('bytes', 'kilobytes', 'megabytes', 'gigabytes', 'terabytes'),
    *('kB', 'MB', 'GB', 'TB', 'KiB', 'MiB', 'GiB', 'TiB'),
)
_FORMATS = ('text', 'json', 'summary', 'markdown', 'csv', 'jsonl', 'parquet', 'chrome-trace', 'sub-tracking')
VALUES = {
    '--format': _FORMATS,
    '--ru': (*_SIZES, 'auto'),
    '--gru': (*_SIZES, 'auto'),
    '--tu': ('seconds', 'minutes', 'hours', 'days', 'auto'),
    '--nec': ('allowed',),
    '--gb': ('nvidia', 'amd', 'intel', 'drm'),
    '--sections': ('io', 'energy', 'gpu_activity', 'cuda'),
    '--order': ('index', 'free', 'power'),
    '--stat': ('min', 'max', 'mean', 'std'),
}
"""Values of options. Only formats in the help of a command are offered."""
_SEVERAL = {'--sections', '--gb'}
_OF_PLACEHOLDER = {
    'file': FILES,
    'path': FILES,
    'picture': FILES,
    'folder': FOLDERS,
    'pid': PROCESSES,
}
_WORDS = {'completion': tuple(_SCRIPTS), 'idle': ('status',), 'sub-track': ('combine', 'analyze', 'compare')}
_LONGEST_TEXT = 70


def run(values: options.Values) -> int:
    """Print the script that ``values`` ask for, and return the exit code."""
    shell = str(values['<shell>'])
    if shell not in _SCRIPTS:
        raise ParameterError('the shell', shell, _shells())
    return output.print_text(_SCRIPTS[shell](lines()))


def lines() -> list[Line]:
    """Return the options and words of all commands from their help texts."""
    return [_line(help_of(name)) for name in ('', *COMMANDS)]


def _shells() -> str:
    return f'{", ".join(list(_SCRIPTS)[:-1])} or {list(_SCRIPTS)[-1]}'


def _line(text: HelpText) -> Line:
    usage = '\n'.join(next(lines for heading, lines in text.blocks if heading == 'Usage'))
    words: tuple[str, ...] | str = _WORDS.get(text.name, ())
    if '<command>' in usage:
        words = PROGRAM
    elif not words and re.search(r'<(file|folder|run|group)>', usage):
        words = FILES
    return Line(text.name, _short(text.summary), [_choice(option) for option in text.options], words)


def _choice(option: HelpOption) -> Choice:
    name = option.names[-1]
    values: tuple[str, ...] | str = VALUES.get(name, ())
    if name == '--format':
        values = tuple(word for word in _FORMATS if re.search(rf'(?<![\w-]){word}(?![\w-])', option.text))
        return Choice(option.names, takes_value=True, values=values, several=False, text='How to write it')
    if not values:
        values = _OF_PLACEHOLDER.get(option.value, ())
    return Choice(option.names, bool(option.value), values, name in _SEVERAL, _short(option.text))


def _short(text: str) -> str:
    """Return the first clause of an explanation."""
    beginning = re.split(r'[.:;,](?:\s|$)| \(', text, maxsplit=1)[0]
    return beginning if len(beginning) <= _LONGEST_TEXT else f'{beginning[:_LONGEST_TEXT].rpartition(" ")[0]} ...'
