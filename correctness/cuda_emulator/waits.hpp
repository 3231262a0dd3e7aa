// The waits that a host thread asks CUDA for: numbered from 1, and some of them not made, so that a test can
// leave out one after another. Which of them a run needs follows from the order that each one adds.
#pragma once

namespace zp::emulated {

class Stream;
class Ticket;

// Watches this thread from now on; waits with these numbers are not made. A query then waits for what it asks
// after: the same run asks for the same waits in every seed and schedule.
void watch_waits(const int* left_out, int count);

// The program touches memory that streams use, now.
void host_touches_memory();

// All later waits are made, and not counted.
void watch_no_more();

// How many waits there were while it watched.
int waits_asked_for();

// Without a wait that is not needed, and without all that were found so before it, streams and the host would
// touch memory in the same order as with all of them. The host is taken to touch it where a call waits for a
// whole stream, where pinned memory is given back, and where the program says so.
bool is_needed(int wait);

// ---- For the runtime's entry points

void note_work(const Stream& stream);
void note_record(const Stream& stream, const Ticket& ticket);
bool waits_are_watched();
// Whether the wait is to be left out.
bool stream_wait_left_out(const Stream& stream, const Ticket& ticket);
bool host_wait_left_out(const Ticket& ticket);
bool host_wait_left_out(const Stream& stream);

}  // namespace zp::emulated
