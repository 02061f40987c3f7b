#define _GNU_SOURCE
#include "script.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void must(int condition, const char *message, const char *about)
{
    if (condition)
        return;
    fprintf(stderr, "script: %s: %s\n", message, about);
    _exit(97);
}

static int ends_word(char letter) { return !letter || isspace((unsigned char)letter) || strchr(";{}#", letter); }

static void skip_between(const char **text)
{
    for (;; ++*text)
        if (**text == '#')
            *text += strcspn(*text, "\n") - 1;
        else if (!isspace((unsigned char)**text) && **text != ';')
            return;
}

/* taken_block: what stands between the braces; the text begins after the first. */
static char *taken_block(const char **text)
{
    const char *start = *text;
    for (int depth = 1; depth; ++*text) {
        must(**text != 0, "a block has no end", start);
        depth += (**text == '{') - (**text == '}');
    }
    return strndup(start, (size_t)(*text - 1 - start));
}

int next_command(const char **text, struct command *command)
{
    *command = (struct command){0};
    skip_between(text);
    while (**text && **text != '\n' && **text != ';' && **text != '#') {
        if (**text == '{') {
            ++*text;
            command->block = taken_block(text);
            break;
        }
        must(**text != '}', "a block ends that has not begun", *text);
        size_t length = 0;
        while (!ends_word((*text)[length]))
            length++;
        must(command->count < MOST_WORDS, "too many words", *text);
        if (length)
            command->words[command->count++] = strndup(*text, length);
        *text += length;
        while (**text == ' ' || **text == '\t')
            ++*text;
    }
    return command->count > 0;
}

const char *word(const struct command *command, int word)
{
    must(word < command->count, "too few words", command->words[0]);
    return command->words[word];
}

long long number(const struct command *command, int place)
{
    char *end;
    const char *text = word(command, place);
    long long value = strtoll(text, &end, 0);
    must(*text && !*end, "not a number", text);
    return value;
}
