/*
** command_text.c: what is told of the command's options (command_line.c): the text of --help, the manual page, and
** completions for shells. Nothing here names an option but by its row.
*/
#include <stdio.h>
#include <string.h>
#include "cli.h"

/* ---- --help ---- */

static void usage_line(FILE *out, const char *name, const char *argument, const char *doc) {
  char call[40];
  snprintf(call, sizeof call, "%s%s%s", name, argument ? " " : "", argument ? argument : "");
  fprintf(out, "  %-18s  %s\n", call, doc);
}

void cli_print_usage(FILE *out) {
  fputs("usage: penumbra [options] [script [arguments]]\n"
        "       penumbra kernel install    the kernel for Jupyter notebooks\n",
        out);
  for (int k = 0; k < cli_num_options; k++)
    usage_line(out, cli_options[k].name, cli_options[k].argument, cli_options[k].doc);
  usage_line(out, "-", NULL, "run standard input");
  fputs("Without a script and -e it starts the prompt, or runs standard input if that is\n"
        "no terminal. A script finds its arguments in `arg`.\n",
        out);
}

/* ---- the manual page ---- */

/* Text of a page: hyphens that are typed, no line that begins with a request. */
static void roff(FILE *out, const char *text) {
  for (const char *p = text; *p; p++) {
    if (*p == '-' || *p == '\\')
      fprintf(out, "\\%c", *p == '\\' ? 'e' : '-');
    else if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n'))
      fprintf(out, "\\&%c", *p);
    else
      fputc(*p, out);
  }
}

static void roff_option(FILE *out, const cli_option *o) {
  fputs(".TP\n", out);
  const char *names[2] = {o->name, o->other};
  for (int k = 0; k < 2 && names[k]; k++) {
    fputs(k ? ", \\fB" : "\\fB", out);
    roff(out, names[k]);
    fputs("\\fR", out);
  }
  if (o->argument) fprintf(out, " \\fI%s\\fR", o->argument);
  fputc('\n', out);
  roff(out, o->doc);
  fputs(".\n", out);
}

static const char before_options[] =
    ".SH NAME\n"
    "penumbra \\- run Lua scripts with tensors, gradients, distributions and networks\n"
    ".SH SYNOPSIS\n"
    ".B penumbra\n"
    "[\\fIoptions\\fR] [\\fIscript\\fR [\\fIarguments\\fR]]\n"
    ".br\n"
    ".B penumbra kernel install\n"
    ".SH DESCRIPTION\n"
    "Runs a script of Lua 5.4, which finds Penumbra by \\fBrequire \"penumbra\"\\fR and its arguments in \\fBarg\\fR.\n"
    "Without a script and \\fB\\-e\\fR it starts the prompt, or runs standard input if that is no terminal.\n"
    "The second form tells Jupyter of the kernel for notebooks; \\fBpenumbra kernel \\-\\-help\\fR.\n"
    "An undefined global is an error. Ctrl\\-C ends what runs; three of them that are not heeded end the process.\n"
    ".PP\n"
    "At the prompt an expression is shown, \\fB?\\fIname\\fR or \\fBhelp(\\fIvalue\\fB)\\fR explains, \\fBhelp\\fR "
    "and\n"
    "words in quotes finds, \\fBexample\\fR and a name in quotes shows it at work, the tab key completes, Ctrl\\-D "
    "ends.\n"
    ".SH OPTIONS\n";

static const char after_options[] =
    ".TP\n"
    "\\fB\\-\\fR\n"
    "run standard input.\n"
    ".SH EXIT STATUS\n"
    "0; 1 after an error, also one of reading options or writing standard output; 130 after Ctrl\\-C; what the script\n"
    "gives \\fBos.exit\\fR.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n"
    "\\fBLUA_PATH\\fR, \\fBLUA_CPATH\\fR\n"
    "where \\fBrequire\\fR looks for modules that are not Penumbra's.\n"
    ".TP\n"
    "\\fBOPENBLAS_CORETYPE\\fR, \\fBOPENBLAS_NUM_THREADS\\fR\n"
    "kernels and threads of OpenBLAS; where they are set, the command leaves the choice to them.\n"
    ".TP\n"
    "\\fBNO_COLOR\\fR, \\fBTERM\\fR\n"
    "errors at the prompt are coloured unless the first is set or the second is \\fBdumb\\fR.\n"
    ".SH FILES\n"
    ".TP\n"
    "\\fI$XDG_STATE_HOME/penumbra/history\\fR\n"
    "the lines of the prompt; without the variable below \\fI~/.local/state\\fR.\n"
    ".TP\n"
    "\\fI~/.editrc\\fR\n"
    "keys of the line editor; see\n"
    ".BR editrc (5).\n"
    ".SH EXAMPLES\n"
    ".nf\n"
    "penumbra \\-e 'print(pn.ones{2})'\n"
    "penumbra \\-i model.lua\n"
    "penumbra \\-\\-seed 1 \\-\\-threads 4 model.lua data.csv\n"
    ".fi\n"
    ".SH SEE ALSO\n"
    ".BR lua5.4 (1)\n";

void cli_print_manual(FILE *out) {
  fprintf(out, ".TH PENUMBRA 1 \"\" \"Penumbra %s\" \"User Commands\"\n", pn_version());
  fputs(before_options, out);
  for (int k = 0; k < cli_num_options; k++) roff_option(out, &cli_options[k]);
  fputs(after_options, out);
}

/* ---- completions ---- */

/* Prints each name of the rows that take a value (or, with `all`, of all rows), with `between` between them. */
static void names_of(FILE *out, bool all, const char *between) {
  const char *before = "";
  for (int k = 0; k < cli_num_options; k++) {
    const char *names[2] = {cli_options[k].name, cli_options[k].other};
    for (int i = 0; i < 2 && names[i] && (all || cli_options[k].argument); i++) {
      fprintf(out, "%s%s", before, names[i]);
      before = between;
    }
  }
}

/* Text between quotes: those letters of `special` after a backslash. zsh and fish have '\'' and \' for a quote. */
static void quoted(FILE *out, const char *text, const char *special, const char *quote) {
  for (; *text; text++) {
    if (*text == '\'')
      fputs(quote, out);
    else
      fprintf(out, "%s%c", strchr(special, *text) ? "\\" : "", *text);
  }
}

/* (bash takes --seed=3 apart at the sign: three words.) */
static void bash_completion(FILE *out) {
  fputs("# Completion of penumbra for bash, made by `penumbra --completion bash`.\n"
        "_penumbra() {\n"
        "  local IFS=$'\\n' word i options values current=${COMP_WORDS[COMP_CWORD]} "
        "previous=${COMP_WORDS[COMP_CWORD-1]}\n"
        "  COMPREPLY=()\n"
        "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "    word=${COMP_WORDS[i]}\n"
        "    case $word in\n    ",
        out);
  names_of(out, false, "|");
  fputs(") [[ ${COMP_WORDS[i+1]} == = ]] && ((i++)); ((i++)) ;;\n"
        "    -?*) ;;\n"
        "    *) return ;; # the script has its own arguments\n"
        "    esac\n"
        "  done\n"
        "  [[ $current == = ]] && current= || { [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD-2]}; }\n"
        "  case $previous in\n",
        out);
  for (int k = 0; k < cli_num_options; k++) {
    if (!cli_options[k].values) continue;
    fprintf(out, "  %s) values=$'", cli_options[k].name);
    for (const char *p = cli_options[k].values; *p; p++) fputs(*p == ' ' ? "\\n" : (char[]){*p, '\0'}, out);
    fputs("'; COMPREPLY=($(compgen -W \"$values\" -- \"$current\")); return ;;\n", out);
  }
  fputs("  ", out);
  names_of(out, false, "|");
  fputs(") return ;;\n  esac\n  case $current in\n  -*) options=$'", out);
  names_of(out, true, "\\n");
  fputs("'; COMPREPLY=($(compgen -W \"$options\" -- \"$current\")) ;;\n"
        "  *) COMPREPLY=($(compgen -d -- \"$current\") $(compgen -f -X '!*.lua' -- \"$current\")) ;;\n"
        "  esac\n"
        "}\n"
        "complete -o filenames -o default -F _penumbra penumbra\n",
        out);
}

static void zsh_completion(FILE *out) {
  fputs("#compdef penumbra\n"
        "# Completion of penumbra for zsh, made by `penumbra --completion zsh`.\n"
        "_arguments -S -A '-*' \\\n",
        out);
  for (int k = 0; k < cli_num_options; k++) {
    const cli_option *o = &cli_options[k];
    const char *names[2] = {o->name, o->other};
    for (int i = 0; i < 2 && names[i]; i++) {
      fputs("  '", out);
      if (o->repeated)
        fputc('*', out);
      else if (o->other)
        fprintf(out, "(%s %s)", o->name, o->other);
      fprintf(out, "%s%s[", names[i], o->argument && names[i][1] == '-' ? "=" : "");
      quoted(out, o->doc, "[]\\", "'\\''");
      fputc(']', out);
      if (o->argument) fprintf(out, ":%s:", o->argument);
      if (o->values) fprintf(out, "(%s)", o->values);
      fputs("' \\\n", out);
    }
  }
  fputs("  '1:script:_files -g \"*.lua(-.)\"' \\\n"
        "  '*:argument:_files'\n",
        out);
}

static void fish_completion(FILE *out) {
  fputs("# Completion of penumbra for fish, made by `penumbra --completion fish`.\n", out);
  for (int k = 0; k < cli_num_options; k++) {
    const cli_option *o = &cli_options[k];
    const char *names[2] = {o->name, o->other};
    fputs("complete -c penumbra", out);
    for (int i = 0; i < 2 && names[i]; i++)
      fprintf(out, names[i][1] == '-' ? " -l %s" : " -s %s", names[i] + (names[i][1] == '-' ? 2 : 1));
    if (o->argument) fputs(" -x", out);
    if (o->values) fprintf(out, " -a '%s'", o->values);
    fputs(" -d '", out);
    quoted(out, o->doc, "\\", "\\'");
    fputs("'\n", out);
  }
}

bool cli_print_completion(FILE *out, const char *shell) {
  static const struct {
    const char *name;
    void (*print)(FILE *out);
  } shells[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  for (size_t k = 0; k < sizeof shells / sizeof *shells; k++)
    if (strcmp(shells[k].name, shell) == 0) return shells[k].print(out), true;
  return false;
}
