from __future__ import annotations

import os

import pytest

from gpu_tracker.fleet.config.secret_files import SecretFileError, read_passwords, read_token
from support.tracked_program import as_root

TOKEN = '0123456789abcdef'  # noqa: S105 - of tests


@pytest.fixture
def secret(tmp_path):
    def write(content: str | bytes, mode: int = 0o600) -> str:
        path = tmp_path / 'secret'
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return str(path)

    return write


@pytest.mark.parametrize('content', [TOKEN, f'{TOKEN}\n', f'  {TOKEN} \r\n', f'\ufeff{TOKEN}\n'])
def test_a_token_is_the_line_of_its_file(secret, content):
    assert read_token(secret(content)) == TOKEN


@pytest.mark.parametrize(
    ('content', 'problem'),
    [
        ('', 'has 0 lines instead of one line with the token'),
        (f'{TOKEN}\n{TOKEN}\n', 'has 2 lines instead of one line with the token'),
        (f'\n{TOKEN}\n', 'has 2 lines instead of one line with the token'),
        ('\n', 'has 0 characters, but needs 16 or more. Make a token with "openssl rand -hex 32"'),
        ('0123456789abcde', 'has 15 characters, but needs 16 or more. Make a token with "openssl rand -hex 32"'),
        ('two words are no token', 'must consist of ASCII letters, digits and punctuation, without spaces'),
        ('grüße-0123456789abcdef', 'must consist of ASCII letters, digits and punctuation, without spaces'),
        ('0123456789abcdef\x07', 'must consist of ASCII letters, digits and punctuation, without spaces'),
        (b'\xff' * 20, 'is not UTF-8 text'),
    ],
)
def test_what_is_no_token_is_refused_without_being_shown(secret, content, problem):
    with pytest.raises(SecretFileError) as refusal:
        read_token(secret(content))
    assert str(refusal.value).startswith('--token-file: ')
    assert str(refusal.value).endswith(problem)
    assert TOKEN not in str(refusal.value)


def test_a_token_for_others_may_be_short(secret):
    assert read_token(secret('abc'), 'token_file', shortest=1) == 'abc'


@pytest.mark.parametrize(('mode', 'shown'), [(0o640, '0640'), (0o604, '0604'), (0o622, '0622')])
def test_a_file_that_others_may_open_is_no_secret(secret, mode, shown):
    path = secret(TOKEN, mode)
    with pytest.raises(SecretFileError) as refusal:
        read_token(path)
    assert str(refusal.value) == (f'--token-file: other users can access {path} (mode {shown}): run chmod 600')


@as_root
def test_a_file_of_another_owner_is_that_owners_affair(secret):
    path = secret(TOKEN, 0o640)
    os.chown(path, 12345, 0)
    assert read_token(path) == TOKEN


def test_a_file_that_is_missing_and_a_folder_are_named_with_the_option(tmp_path):
    with pytest.raises(SecretFileError, match=r'^--token-file: cannot read /none: No such file or directory$'):
        read_token('/none')
    with pytest.raises(SecretFileError, match=r'^--password-file: cannot read .*: Is a directory$'):
        read_passwords(str(tmp_path))


def test_passwords_stand_one_a_line_with_comments_between(secret):
    content = '# who may look\n\nann:open:sesame\nbob:#not a comment ü\r\n'
    assert read_passwords(secret(content)) == {'ann': 'open:sesame', 'bob': '#not a comment ü'}


@pytest.mark.parametrize(
    ('line', 'problem'),
    [
        ('ann', 'not name:password'),
        ('ann:', 'not name:password'),
        (':sesame', 'not name:password'),
        ('ann: sesame', 'a blank at the beginning or the end of the name or the password'),
        (' ann:sesame', 'a blank at the beginning or the end of the name or the password'),
        ('ann:sesame ', 'a blank at the beginning or the end of the name or the password'),
        ('ann:ses\tame', 'a character that cannot be typed'),
        ('bob:again and again', 'the same name again'),
        ('ann:sesames', 'the password has 7 characters; it needs 8 or more'),
        ('ann:$apr1$x$y', 'the password looks like a hash that htpasswd makes; passwords stand here as they are typed'),
        ('ann:{SHA}x', 'the password looks like a hash that htpasswd makes; passwords stand here as they are typed'),
    ],
)
def test_a_line_that_is_no_password_is_named(secret, line, problem):
    path = secret(f'bob:fine enough\n{line}\n')
    with pytest.raises(SecretFileError) as refusal:
        read_passwords(path)
    assert str(refusal.value) == f'--password-file: {path}, line 2: {problem}'


def test_a_file_of_comments_lets_nobody_in_and_is_refused(secret):
    path = secret('# nobody\n')
    with pytest.raises(SecretFileError) as refusal:
        read_passwords(path)
    assert str(refusal.value) == f'--password-file: {path} has no line of the form name:password'
