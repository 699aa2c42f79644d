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

bool mq_wire_send(int fd, enum mq_wire_kind kind, const void *bytes, uint64_t size)
{
	struct mq_wire_head head = { .kind = kind, .size = size };

	return send_all(fd, &head, sizeof(head)) && send_all(fd, bytes, size);
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

bool mq_wire_send_fd(int fd, enum mq_wire_kind kind, const void *bytes, uint64_t size, int passed)
{
	struct mq_wire_head head = { .kind = kind, .size = size };
	union control control = { 0 };
	struct iovec part = { .iov_base = &head, .iov_len = sizeof(head) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &passed, sizeof(int));
	ssize_t sent;
	do
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == sizeof(head) && send_all(fd, bytes, size);
}

static bool receive_body(int fd, struct mq_arena *arena, const struct mq_wire_head *head, void **bytes)
{
	if (head->size > (uint64_t)LARGEST_MB << 20)
		return false;
	*bytes = mq_arena_alloc(arena, head->size + 1); /* text is ended by the zero */
	return receive_all(fd, *bytes, head->size);
}

bool mq_wire_receive(int fd, struct mq_arena *arena, struct mq_wire_head *head, void **bytes)
{
	return receive_all(fd, head, sizeof(*head)) && receive_body(fd, arena, head, bytes);
}

bool mq_wire_receive_fd(int fd, struct mq_arena *arena, struct mq_wire_head *head, void **bytes, int *passed)
{
	union control control = { 0 };
	struct iovec part = { .iov_base = head, .iov_len = sizeof(*head) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	ssize_t got;

	*passed = -1;
	do
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return false;
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(passed, CMSG_DATA(c), sizeof(int));
	if (!receive_all(fd, (char *)head + got, sizeof(*head) - (size_t)got) ||
	    !receive_body(fd, arena, head, bytes)) {
		if (*passed >= 0)
			close(*passed);
		*passed = -1;
		return false;
	}
	return true;
}
