/*
 * main.c - set up what libraries and signals do behind our back, then hand over to the frame
 */
#include <errno.h>
#include <gsl/gsl_errno.h>
#include <hdf5.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kernels/cpu/isa.h"
#include "sim/base/file.h"

#define PATIENCE 10 /* s */

static atomic_bool interrupt_seen;

static void give_up(void)
{
    static const char text[] = "kvtwin: interrupted\n";
    kvt_output_abandon_all();
    ssize_t told = write(STDERR_FILENO, text, sizeof text - 1);
    (void)told;
    _exit(KVT_EINTR);
}

/* The first signal asks the command to finish and write its outputs; the second does not wait, nor
 * does the alarm where nobody has seen the first: a pipe that stays empty, a file without end. */
static void on_interrupt(int signal_number)
{
    static volatile sig_atomic_t asked;
    if (signal_number == SIGALRM ? !atomic_load(&interrupt_seen) : asked)
        give_up();
    if (signal_number == SIGALRM)
        return;
    asked = 1;
    kvt_stop_ask(&kvt_cli_interrupted);
    alarm(PATIENCE);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    kvt_cli_interrupted.seen = &interrupt_seen;
    /* A reader that goes away and a limit on file sizes are failed writes like any other, so that
     * they are reported and outputs are cleaned up. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* `kvtwin ... | head`: the reader has what it wanted, and needs no message. */
static bool reader_has_gone(void)
{
    struct pollfd end = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&end, 1, 0) == 1 && (end.revents & POLLERR) != 0;
}

/* A full disk shows only when the last bytes leave the buffer. */
static int close_stdout(int code)
{
    errno = 0;
    bool whole = fflush(stdout) == 0 && ferror(stdout) == 0;
    int why = errno;
    bool quiet = !whole && reader_has_gone();
    if (fclose(stdout) != 0 && whole) {
        whole = false;
        why = errno;
    }
    if (whole)
        return code;
    if (!quiet)
        fprintf(stderr, "kvtwin: standard output: %s\n", why != 0 ? strerror(why) : "write failed");
    return code == KVT_OK || code == KVT_NEGATIVE ? KVT_EIO : code;
}

int main(int argc, char *argv[])
{
    gsl_set_error_handler_off();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    catch_signals();
    kvt_inputs_guard(true);
    struct kvt_err err = {0};
    if (kvt_isa_init(&err) != KVT_OK) {
        fprintf(stderr, "kvtwin: %s\n", err.text);
        return KVT_EUSAGE;
    }
    return close_stdout(kvt_cli_main(argc, argv));
}
