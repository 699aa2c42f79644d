/* pool_message.c - see pool_message.h. SPDX-License-Identifier: Apache-2.0 */
#include "judge/pool_message.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGEST_MB = 4096 };

static bool send_all(int fd, const void *bytes, uint64_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		at += sent;
		size -= (uint64_t)sent;
	}
	return true;
}

static bool receive_all(int fd, void *bytes, uint64_t size)
{
	char *at = bytes;

	while (size) {
		ssize_t got = recv(fd, at, size, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		size -= (uint64_t)got;
	}
	return true;
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

bool mq_wire_send(int fd, enum mq_wire_kind kind, const void *bytes, uint64_t size, int passed)
{
	struct mq_wire_head head = { .kind = kind, .size = size };
	union control control = {
		.head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) }
	};
	struct iovec part = { .iov_base = &head, .iov_len = sizeof(head) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = passed >= 0 ? &control : NULL,
				  .msg_controllen = passed >= 0 ? sizeof(control) : 0 };
	ssize_t sent;

	memcpy(CMSG_DATA(&control.head), &passed, sizeof(int));
	do
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent > 0 && send_all(fd, (char *)&head + sent, sizeof(head) - (size_t)sent) && send_all(fd, bytes, size);
}

bool mq_wire_receive(int fd, struct mq_arena *arena, struct mq_wire_head *head, void **bytes, int *passed)
{
	union control control = { 0 };
	struct iovec part = { .iov_base = head, .iov_len = sizeof(*head) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = passed ? &control : NULL,
				  .msg_controllen = passed ? sizeof(control) : 0 };
	int got_fd = -1;
	ssize_t got;

	do
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&got_fd, CMSG_DATA(c), sizeof(int));
	bool whole = got > 0 && receive_all(fd, (char *)head + got, sizeof(*head) - (size_t)got) &&
		     head->size <= (uint64_t)LARGEST_MB << 20;
	if (whole) {
		*bytes = mq_arena_alloc(arena, head->size + 1); /* one zero byte more ends a text */
		whole = receive_all(fd, *bytes, head->size);
	}
	if (!whole && got_fd >= 0)
		close(got_fd);
	if (passed)
		*passed = whole ? got_fd : -1;
	return whole;
}
