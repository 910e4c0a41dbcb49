/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Why the kernel said no, in one line a person can act on.
 *
 * While a listener is on, libbpf's messages do not reach stderr; what they said about a failed load
 * is kept: the verifier's last line that is not its statistics, else libbpf's first warning.
 */
#ifndef SK_BPF_REASON_H
#define SK_BPF_REASON_H

#include <stddef.h>

void sk_bpf_reason_listen(void);
void sk_bpf_reason_forget(void);
void sk_bpf_reason_restore(void);
/* The program that libbpf named first in its warnings; empty: none. */
const char *sk_bpf_reason_program(void);
/* "<what>: <errno in words>[: needs ...][: <heard>]" */
void sk_bpf_reason_write(char *ret, size_t size, const char *what, int negative_errno);

/* The program that a warning is about, into `ret`; empty when it names none; pure. */
void sk_bpf_reason_program_of(const char *message, char *ret, size_t size);

/* The last line of a verifier log that says something; pure. */
void sk_bpf_reason_verifier_line(const char *log, char *ret, size_t size);

#endif
