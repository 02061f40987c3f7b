/* The script, cut into words: a line or ";" ends a command, "{" and "}" enclose the commands of a block. */
#pragma once

enum { MOST_WORDS = 10 };

/* A command: its words, and the text of its block, NULL where it has none. */
struct command {
    int count;
    char *words[MOST_WORDS];
    char *block;
};

/* next_command: takes a command from the text and moves it on; 0 at its end. What it points to is never freed. */
int next_command(const char **text, struct command *command);

/* number: the command's word as a number; ends the process where it is none. */
long long number(const struct command *command, int word);
const char *word(const struct command *command, int word);

/* must: ends the process with a message where the condition is false. */
void must(int condition, const char *message, const char *about);
