// A plugin of QEMU's user emulation that counts how often each instruction of a program runs. At the end it writes a
// line for each address: the address and the count, in hexadecimal and decimal. The functions of QEMU that it calls, and
// their types, are those of version 1 of the interface: https://www.qemu.org/docs/master/devel/tcg-plugins.html

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum { ADD_U64 = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

EXPORT int qemu_plugin_version = 1;

// places is a table of addresses with open addressing. A program of Go has some hundred thousand instructions.
enum { BITS = 22 };
static struct place {
	uint64_t address, *count;
} places[1 << BITS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *out;

// counter returns where the runs of the instruction at address are counted. The caller holds the mutex.
static uint64_t *counter(uint64_t address)
{
	uint64_t i = address * UINT64_C(0x9E3779B97F4A7C15) >> (64 - BITS);
	while (places[i].count && places[i].address != address)
		i = (i + 1) % (1 << BITS);
	if (!places[i].count) {
		places[i].address = address;
		places[i].count = calloc(1, sizeof *places[i].count);
		if (!places[i].count)
			abort();
	}
	return places[i].count;
}

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
		struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, i);
		qemu_plugin_register_vcpu_insn_exec_inline(one, ADD_U64, counter(qemu_plugin_insn_vaddr(one)), 1);
	}
	pthread_mutex_unlock(&mutex);
}

static void end(plugin_id id, void *data)
{
	FILE *f = fopen(out, "w");
	if (!f)
		return;
	for (size_t i = 0; i < 1 << BITS; i++)
		if (places[i].count && *places[i].count)
			fprintf(f, "%llx %llu\n", (unsigned long long)places[i].address, (unsigned long long)*places[i].count);
	fclose(f);
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	if (argc != 1 || strncmp(argv[0], "out=", 4))
		return 1;
	out = strdup(argv[0] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, end, NULL);
	return 0;
}
