"""Counts hard-to-read English by folder, and fails if a folder gets worse.

    python scripts/check_english.py
    python scripts/check_english.py --show FOLDER
    python scripts/check_english.py --update

It reads the docstrings and comments of Python files, the messages in src, the .rst pages, and the comments of .sh and
.toml files. ``PATTERNS`` lists the wordings it counts. ``--show`` prints every hit of a folder. ``--update`` lowers the
counts in scripts/english_counts.json and adds new folders; it never raises a count.

A folder fails if both its hits and its hits per 1,000 lines are above the committed ones. The hits alone rise with
every new page, and the rate alone rises when clear text is deleted.

Commit subjects of more than 72 characters fail too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Counts = Mapping[str, Mapping[str, float]]

ROOT = Path(__file__).resolve().parents[1]
COUNTS = Path(__file__).with_name('english_counts.json')
EXAMPLES = 10
SUBJECTS_SINCE = '31880512a12bf91bcb3b508612cb24eba638efc2'
SUBJECT_LENGTH = 72
SENTENCE_WORDS = 25
COMMENT_SHARE = 0.2
COMMENTS = 10
MESSAGE_WORDS = 4
CODE_INDENT = 4
SUFFIXES = ('.py', '.rst', '.sh', '.toml')

_THINGS = 'process|processes|program|programs|file|files|function|kernel|driver|child|parent|command|library|agent'
_ARE = 'is|are|was|were'
_HAVE = 'has|have|had'
_WHERE = (
    rf'where\s+(?!(?:it|they)\s+(?:{_ARE})\s*[.,;)])'  # "where it is." is a place
    r'(?:it|they|there|that|this|these|those|no|not|nothing|nobody|none|one|an?|its)\s[^.;:]{0,60}?'
    rf'\b(?:{_ARE}|{_HAVE}|can|cannot|could|may|must|does|do)\b'
)
_WHO = (
    r'(?<!user )(?<!users )(?<!person )(?<!people )(?<!body )\b'
    rf'who\s+(?:{_ARE}|{_HAVE}|asks?|reads?|waits?|waited|runs?|uses?|used|starts?|calls?|sends?|gets?)\b'
)
PATTERNS = {
    'where': (_WHERE, 'write "if" or "when" for a condition'),
    'those that': (r'those\s+(?:that|of|who|which|whom|whose)\b|\bthat\s+of\b', 'name the things'),
    'of which': (r'(?:that|of)\s+(?:which|whom)\b', 'start a new sentence'),
    'as above': (r'as\s+above\b|(?<!is )(?<!are )(?<!be )(?<!then )\bthe\s+same\s+for\b', 'name it again'),
    'one that': (r'ones?\s+(?:that|who|which|whom)\b', 'name the thing'),
    'what is': (rf'what\s+(?:{_ARE}|{_HAVE})\s[^.;:?]{{1,50}}?\b(?:{_ARE})\b', 'use a noun'),
    'who': (_WHO, 'a process is a noun: reader, caller, child'),
    'tell': (r'(?:tells?|told|telling)\b', 'write report or return'),
    'look at': (r'(?:look(?:s|ed|ing)?\s+at|a\s+look(?!-))\b', 'write read or poll'),
    'patience': (r'(?:im)?patien(?:ce|t|tly)\b', 'write timeout or deadline'),
    'mend': (r'mend(?:s|ed|ing)?\b', 'write fix'),
    'person': (
        rf'(?:{_THINGS})\s+(?:knows?|knew|says?|said|speaks?|asks?|asked|sees?|wants?|believes?|remembers?)\b',
        'write reports, requests, stores or logs',
    ),
}
"""Name: regular expression of lower-case text, begun at a word, and what to write instead."""
ADVICE = {name: advice for name, (_, advice) in PATTERNS.items()} | {
    'long': f'split sentences of more than {SENTENCE_WORDS} words',
    'that, that': 'use "that" or "which" once in a sentence',
    'comments': f'cut the comments of a module to {COMMENT_SHARE:.0%} of its lines',
}
_PATTERN = re.compile(
    r'\b(?:' + '|'.join(f'(?P<{name.replace(" ", "_")}>{regex})' for name, (regex, _) in PATTERNS.items()) + ')'
)
# Group 1 is a relative word: not "so that", "after that" and a "that" before a comma.
_THAT = re.compile(
    r'\b(?:so|after|before|with|for|by|than|from|in|to|on|at|as|like)\s+that\b'
    r'|\bthat(?=[.,;:)?!]|\s*$)|\b(that|which)\b'
)
_LITERAL = re.compile(r'``[^`\n]+``|`[^`\n]+`|\{[^{}\n]*\}|"[^"\n]*"')
_SENTENCE_END = re.compile(r'[.!?][)"\'*]*\s+(?=[^a-z\s])')
_WORD = re.compile(r'\S*[A-Za-z0-9]\S*')
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |\"{3}[^\\"]*(?:(?:\\.|"(?!""))[^\\"]*)*\"{3} | '{3}[^\\']*(?:(?:\\.|'(?!''))[^\\']*)*'{3}
    |"[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.DOTALL | re.VERBOSE,
)
_TRIPLE = ('"""', "'''")
_PRAGMA = re.compile(r'#+\s*(?:noqa|type:|pragma|pyright|ruff|shellcheck|!/).*')
_PROGRAM = re.compile(r'[;{(]\n|\n\s*(?:import|local)\s|</\w|\bSELECT\b')
_ITEM = re.compile(r'(?:[-*]|\d+\.|#\.)\s|--?\w|:[\w ]+:|\.\. ')
_CODE = re.compile(r'\.\. (?!note|warning|tip|important)|(?!\.\. ).*::$|>>> ')
_TABLE = re.compile(r'={2,}( +={2,})+|\+[-=+]+\+|[=\-~^"]{3,}')


@dataclass(frozen=True, slots=True)
class Hit:
    """One place with a pattern."""

    path: str
    line: int
    pattern: str
    text: str


@dataclass(slots=True)
class Folder:
    """The lines of text of a folder, and the hits in them."""

    lines: int = 0
    hits: list[Hit] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Hits per 1,000 lines of text."""
        return round(1000 * len(self.hits) / self.lines, 1) if self.lines else 0.0


def folder_of(path: str) -> str:
    """Return the folder that counts the hits of a file."""
    parts = path.split('/')[:-1]
    deepest = 3 if parts[:1] == ['src'] else 2 if parts[:1] == ['tests'] else 1
    return '/'.join(parts[:deepest]) or '.'


def python_texts(source: str, *, with_messages: bool) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, comment and, if asked for, message.

    One regular expression finds them: ast and tokenize take 15 s for this repository.
    """
    comment: list[str] = []
    message: list[str] = []
    comment_line = message_line = line = 1
    end, before = 0, ''
    for token in _TOKEN.finditer(source):
        code = source[end : token.start()].rstrip('rRbBuUfF').rstrip(' \t')
        end = token.end()
        line += code.count('\n')
        is_first = not code or code.endswith('\n')
        before = code.strip()[-1:] or before
        if comment and not (token['comment'] and is_first and comment_line + len(comment) == line):
            yield comment_line, '\n'.join(comment)
            comment = []
        if message and (code.strip() or token['comment']):
            yield from prose(message_line, message)
            message = []
        if token['comment']:
            text = _PRAGMA.sub('', token[0]).lstrip('#')
            if is_first:
                comment_line = line - len(comment)
                comment.append(text)
            else:
                yield line, text
            continue
        if token[0][:3] in _TRIPLE and is_first and before not in tuple('([{,=+%'):
            first, _, rest = token[0][3:-3].partition('\n')
            yield line, f'{first}\n{textwrap.dedent(rest)}'
        elif with_messages:
            message_line = message_line if message else line
            message.append(token[0].strip('"\'').replace('\\n', ' '))
        before = '"'
        line += token[0].count('\n')
    yield comment_line, '\n'.join(comment)
    yield from prose(message_line, message)


def prose(line: int, strings: list[str]) -> Iterator[tuple[int, str]]:
    """Yield adjacent strings as one text, but no short ones and no programs."""
    text = '\n'.join(strings)
    if len(text.split()) >= MESSAGE_WORDS and not _PROGRAM.search(text):
        yield line, text


def hash_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a shell script or a TOML file: those at the end of a line, then all others as one text."""
    lines = source.split('\n')
    for line, words in enumerate(lines, 1):
        if trailing := re.search(r'\S.*\s#\s(.*)', words):
            yield line, trailing[1]
    yield 1, '\n'.join(re.sub(r'^\s*#(?=\s|$)|^.*', '', words, count=1) for words in lines)


def paragraphs(line: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and list items with their first line, without titles and code; a row of a table is one."""
    block: list[str] = []
    block_indent = 0
    code_indent: int | None = None
    for number, words in enumerate([*text.split('\n'), ''], line):
        bare = words.strip()
        indent = len(words) - len(words.lstrip())
        if code_indent is not None and bare and indent <= code_indent:
            code_indent = None
        below_term = len(block) == 1 and indent > block_indent and not _is_item(block[0])
        if not bare or code_indent is not None or below_term or _is_item(bare):
            if block and not any(_TABLE.match(row) for row in block):
                yield number - len(block), '\n'.join(block)
            block = []
        if not bare or code_indent is not None:
            continue
        if not block:
            block_indent = indent
            if indent >= CODE_INDENT and not below_term:
                code_indent = CODE_INDENT - 1
                continue
        if _CODE.match(bare):
            code_indent = indent
        if not bare.startswith('..'):
            block.append(bare)


def _is_item(bare: str) -> bool:
    """Return whether a line begins a list item, a field, or a row with columns."""
    return '  ' in bare or _ITEM.match(bare) is not None


def hits_of(path: str, line: int, text: str) -> Iterator[Hit]:
    """Yield the hits in a paragraph."""
    masked = _LITERAL.sub(lambda literal: 'X' * len(literal[0]), text)
    ends = [match.end() for match in _SENTENCE_END.finditer(masked)]
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        sentence = masked[start:end].lower()
        found = [(match.lastgroup, match.start()) for match in _PATTERN.finditer(sentence)]
        found += [('long', 0)] * (len(_WORD.findall(sentence)) > SENTENCE_WORDS)
        found += [('that, that', 0)] * (sum(map(bool, _THAT.findall(sentence))) > 1)
        for name, offset in found:
            shown = ' '.join(text[start:end].split())
            yield Hit(path, line + text.count('\n', 0, start + offset), name.replace('_', ' '), shown)


def read(path: str, source: str) -> tuple[int, list[Hit]]:
    """Return the number of lines of text in a file, and its hits."""
    if path.endswith('.py'):
        texts = python_texts(source, with_messages=path.startswith('src/'))
    elif path.endswith('.rst'):
        texts = iter([(1, source)])
    else:
        texts = hash_comments(source)
    lines = 0
    hits = []
    for first, whole in texts:
        for line, text in paragraphs(first, whole):
            lines += text.count('\n') + 1
            hits += hits_of(path, line, text)
    if path.endswith('.py'):
        rows = [row for row in map(str.lstrip, source.split('\n')) if row]
        comments = sum(row.startswith('#') for row in rows)
        if comments > max(COMMENTS, COMMENT_SHARE * len(rows)):
            hits.append(Hit(path, 1, 'comments', f'{comments} of {len(rows)} lines are comments'))
    return lines, hits


def tracked() -> list[str]:
    """Return the files that git tracks; without git, all files below the root."""
    listed = git('ls-files', '-z') if (ROOT / '.git').exists() else None
    if listed is not None:
        names = listed.split('\0')
    else:
        names = []
        for folder, below, files in os.walk(ROOT):
            below[:] = [name for name in below if not name.startswith('.') and name not in {'_build', 'build', 'dist'}]
            names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return sorted(name for name in names if name.endswith(SUFFIXES) and (ROOT / name).is_file())


def git(*words: str) -> str | None:
    """Return what a git command prints; None if it fails or git is missing."""
    try:
        return subprocess.run(['git', *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def count(paths: Iterable[str]) -> dict[str, Folder]:
    """Return the folders of files, with their hits."""
    folders: defaultdict[str, Folder] = defaultdict(Folder)
    for path in paths:
        lines, hits = read(path, (ROOT / path).read_text())
        folder = folders[folder_of(path)]
        folder.lines += lines
        folder.hits += hits
    return dict(sorted(folders.items()))


def is_worse(folder: Folder, committed: Mapping[str, float]) -> bool:
    """Return whether hits and rate are both above the committed ones."""
    return len(folder.hits) > committed.get('hits', 0) and folder.rate > committed.get('rate', 0)


def lowered(folders: Mapping[str, Folder], committed: Counts) -> Counts:
    """Return the counts to commit: the lower of now and before. Folders that are gone are dropped."""
    now = {name: {'hits': len(folder.hits), 'rate': folder.rate} for name, folder in folders.items()}
    return {
        name: {key: min(value, committed.get(name, counts)[key]) for key, value in counts.items()}
        for name, counts in now.items()
    }


def long_subjects(log: str) -> list[str]:
    """Return a problem for each subject in the output of ``git log`` that is too long."""
    return [
        f'a commit subject has {len(subject)} characters, more than {SUBJECT_LENGTH}: {subject}'
        for subject in log.splitlines()
        if len(subject) > SUBJECT_LENGTH
    ]


def table(folders: Mapping[str, Folder], committed: Counts) -> Iterator[str]:
    """Yield the lines of the table of all folders."""
    row = '{:<34} {:>7} {:>6} {:>10} {:>16}'.format
    yield row('folder', 'lines', 'hits', 'per 1,000', 'committed')
    for name, folder in folders.items():
        before = committed.get(name)
        shown = f'{before["hits"]}, {before["rate"]:.1f}' if before else 'new'
        yield row(name, f'{folder.lines:,}', f'{len(folder.hits):,}', f'{folder.rate:.1f}', shown)
    lines = sum(folder.lines for folder in folders.values())
    hits = sum(len(folder.hits) for folder in folders.values())
    yield row('all', f'{lines:,}', f'{hits:,}', f'{1000 * hits / max(lines, 1):.1f}', '')


def problem(name: str, folder: Folder, changed: set[str]) -> str:
    """Return why a folder fails, with examples from changed files first."""
    top = Counter(hit.pattern for hit in folder.hits).most_common(3)
    examples = sorted(folder.hits, key=lambda hit: (hit.path not in changed, hit.path, hit.line))[:EXAMPLES]
    return '\n'.join(
        [
            f'{name} is above its committed count: {len(folder.hits)} hits, {folder.rate:.1f} per 1,000 lines',
            *(f'  {number} x {pattern}: {ADVICE[pattern]}' for pattern, number in top),
            *map(shown_hit, examples),
            f'  All hits: python scripts/check_english.py --show {name} (--update adds a new folder)',
        ]
    )


def shown_hit(hit: Hit) -> str:
    """Return a hit as one line."""
    return f'{hit.path}:{hit.line}: {hit.pattern}: {textwrap.shorten(hit.text, 160)}'


def changed_files() -> set[str]:
    """Return the files that changed since the counts were committed."""
    commit = (git('log', '-1', '--format=%H', '--', str(COUNTS)) or '').strip() or 'HEAD'
    return set((git('diff', '--name-only', commit) or '').splitlines())


def check(folders: Mapping[str, Folder], committed: Counts) -> list[str]:
    """Print the table, and return what fails."""
    sys.stdout.write('\n'.join(table(folders, committed)) + '\n')
    worse = {name: folder for name, folder in folders.items() if is_worse(folder, committed.get(name, {}))}
    changed = changed_files() if worse else set()
    problems = [problem(name, folder, changed) for name, folder in worse.items()]
    log = git('log', '--no-merges', '--format=%s', f'{SUBJECTS_SINCE}..HEAD') if (ROOT / '.git').exists() else None
    if log is None:
        sys.stdout.write(f'Commit subjects are not checked: git or its commit {SUBJECTS_SINCE[:7]} is missing.\n')
    return problems + long_subjects(log or '')


def main(words: list[str]) -> int:
    """Run one command, and return the exit code."""
    committed = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    problems = []
    match words:
        case []:
            problems = check(count(tracked()), committed)
        case ['--show', name]:
            hits = count(path for path in tracked() if folder_of(path) == name).get(name, Folder()).hits
            sys.stdout.writelines(f'{shown_hit(hit)}\n' for hit in hits)
        case ['--update']:
            counts = lowered(count(tracked()), committed)
            rows = [f'  {json.dumps(name)}: {json.dumps(entry)}' for name, entry in counts.items()]
            COUNTS.write_text('{\n' + ',\n'.join(rows) + '\n}\n')
        case _:
            sys.stderr.write(__doc__)
            return 2
    for line in problems:
        sys.stderr.write(f'check_english.py: {line}\n')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
