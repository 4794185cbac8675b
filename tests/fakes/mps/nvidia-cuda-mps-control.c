/* A control program of CUDA MPS without any GPU: same commands, answers and failures, and a log.
 *
 * ``-d`` and ``-f`` start the daemon (fake_daemon.py beside this program) in CUDA_MPS_PIPE_DIRECTORY; without
 * arguments commands are read from stdin and sent to it. There is one server process for each user (only one
 * at a time, unless -multiuser-server), which outlives a daemon that is killed.
 *
 * A client (the fake libcuda) speaks files in the pipe directory:
 *
 * - ``fake-daemon`` is written by the daemon, atomically, one ``key value`` a line: ``pid``, ``start`` (of the
 *   daemon, field 22 of /proc/PID/stat), ``multiuser 0|1``, ``most_clients N``; while there is a server
 *   ``server PID``, ``uid UID``, ``fault 0|1``, ``active_thread_percentage P``, and ``pinned UUID BYTES`` for
 *   each device with a limit; ``accepted PID``, ``refused PID`` (the server has its most clients),
 *   ``terminated PID``.
 * - ``clients/PID`` is written by the client, atomically: ``start TICKS``, ``uid UID``, ``device UUID`` for
 *   each. It has its context when ``accepted PID`` appears; until then it waits (another user is served: that
 *   is the hang that people meet). It is gone when its process is.
 *
 * Tests steer it by files beside this program: ``behaviour`` (one a line: ``hang [COMMAND]``, ``garbage
 * [COMMAND]``, ``fail [COMMAND]``, ``silent-start``; the command of -d is ``start``), and by the command
 * ``fake_fault SERVER CLIENT``. Every call is a line in ``calls.log`` beside it; every process of the daemon
 * is one in ``processes``.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char no_daemon[] = "Cannot find MPS control daemon process\n";
static char here[PATH_MAX], pipes[PATH_MAX];

/* Append a line to the log, in one write. */
static void note(const char *text)
{
    char path[PATH_MAX + 16], line[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/calls.log", here);
    int length = snprintf(line, sizeof line, "%s %s\n", pipes, text);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log >= 0 && write(log, line, (size_t)length) < 0)
        perror("calls.log");
}

/* Look up how to misbehave for a command; empty for not at all. */
static const char *behaviour(const char *command)
{
    static char kind[64];
    char path[PATH_MAX + 16], line[256], which[128];
    snprintf(path, sizeof path, "%s/behaviour", here);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        int words = sscanf(line, "%63s %127s", kind, which);
        if (words == 1 || (words == 2 && !strcmp(which, command))) {
            fclose(file);
            return kind;
        }
    }
    if (file)
        fclose(file);
    return "";
}

static void hang(void)
{
    for (;;)
        pause();
}

/* Connect to the daemon; -1 when there is none. */
static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(pipes) + sizeof "/control" > sizeof address.sun_path)
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipes);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(connection, (struct sockaddr *)&address, sizeof address) ? -1 : connection;
}

static int say(const char *text, int code)
{
    fputs(text, stdout);
    return code;
}

/* Do what -d and -f do. */
static int start_daemon(char **arguments)
{
    char path[PATH_MAX + 32], all[1024] = "";
    const char *kind = behaviour("start");
    for (char **each = arguments + 1; *each; each++)
        strncat(strcat(all, each == arguments + 1 ? "" : " "), *each, 100);
    note(all);
    if (!strcmp(kind, "hang"))
        hang();
    if (!strcmp(kind, "fail") || strlen(pipes) + sizeof "/control" > 108)
        return say(no_daemon, 1);
    if (!strcmp(kind, "silent-start"))
        return 0;
    if (connected() >= 0)
        return say("An instance of this daemon is already running\n", 1);
    snprintf(path, sizeof path, "%s/fake_daemon.py", here);
    execv(path, arguments);
    perror(path);
    return 1;
}

/* Send one command and print the answer. */
static int send_command(const char *command)
{
    char name[128] = "", part[4096];
    ssize_t length;
    sscanf(command, "%127s", name);
    const char *kind = behaviour(name);
    if (!strcmp(kind, "hang"))
        hang();
    if (!strcmp(kind, "garbage"))
        return fwrite("\0\033[31m%$#! segfault at 0x0 \n-- \n", 1, 33, stdout), 0;
    if (!strcmp(kind, "fail"))
        return say("Failed to communicate with the MPS control daemon\n", 1);
    int connection = connected();
    if (connection < 0)
        return say(no_daemon, 1);
    dprintf(connection, "%s\n", command);
    while ((length = read(connection, part, sizeof part)) > 0)
        fwrite(part, 1, (size_t)length, stdout);
    close(connection);
    return length < 0 ? say(no_daemon, 1) : 0;
}

int main(int count, char **arguments)
{
    char program[PATH_MAX] = "", line[PATH_MAX];
    const char *named = getenv("CUDA_MPS_PIPE_DIRECTORY");
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return 1;
    snprintf(here, sizeof here, "%s", dirname(program));
    snprintf(pipes, sizeof pipes, "%s", named && *named ? named : "/tmp/nvidia-mps");
    for (int at = 1; at < count; at++)
        if (!strcmp(arguments[at], "-d") || !strcmp(arguments[at], "-f"))
            return start_daemon(arguments);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line)
            continue;
        note(line);
        int code = send_command(line);
        if (code)
            return code;
    }
    return 0;
}
