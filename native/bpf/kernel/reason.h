/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The kernel's reason for a refusal, in one line a person can act on.
 *
 * While a listener is on, libbpf's messages do not reach stderr. Of a failed load the verifier's
 * last line that is not statistics is kept, else libbpf's first warning.
 */
#ifndef SK_BPF_KERNEL_REASON_H
#define SK_BPF_KERNEL_REASON_H

#include <stddef.h>

void sk_bpf_reason_listen(void);
void sk_bpf_reason_forget(void);
void sk_bpf_reason_restore(void);
/* Return the program that libbpf named first in its warnings; empty: none. */
const char *sk_bpf_reason_program(void);
/* Write "<what>: <errno in words>[: needs ...][: <message>]". */
void sk_bpf_reason_write(char *ret, size_t size, const char *what, int negative_errno);

/* Write the program that a warning is about into `ret`; empty when it names none. Pure. */
void sk_bpf_reason_program_of(const char *message, char *ret, size_t size);

/* Write the last informative line of a verifier log into `ret`. Pure. */
void sk_bpf_reason_verifier_line(const char *log, char *ret, size_t size);

#endif
