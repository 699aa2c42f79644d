/* links.cpp - properties of links, which SimGrid's C interface lacks. A SPLITDUPLEX link NAME appears as NAME_UP and
 * NAME_DOWN, but its properties stay at NAME. SPDX-License-Identifier: Apache-2.0 */
#include <stdexcept>
#include <string>

#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Link.hpp>

extern "C" {
const char *mq_platform_link_property(const_sg_link_t link, const char *name);
}

static const char *of_pair(const std::string &link, const char *suffix, const char *name)
{
	size_t n = std::char_traits<char>::length(suffix);

	if (link.size() <= n || link.compare(link.size() - n, n, suffix) != 0)
		return nullptr;
	try {
		return simgrid::s4u::Engine::get_instance()
			->split_duplex_link_by_name(link.substr(0, link.size() - n))
			->get_property(name);
	} catch (const std::invalid_argument &) {
		return nullptr; /* a plain link with such a name */
	}
}

const char *mq_platform_link_property(const_sg_link_t link, const char *name)
{
	const char *value = link->get_property(name);

	if (!value)
		value = of_pair(link->get_name(), "_UP", name);
	if (!value)
		value = of_pair(link->get_name(), "_DOWN", name);
	return value;
}
