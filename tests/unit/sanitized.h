/*
 * sanitized.h - is this a build with sanitizers? They look at memory, not at values, and are ten times slower: a part
 * of the draws is enough for them where the test as it ships goes through all. Comes behind cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_SANITIZED_H
#define MQ_TESTS_SANITIZED_H

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#endif
