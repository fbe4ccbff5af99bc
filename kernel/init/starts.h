/* The starts of a default that were not confirmed, where systemd-boot starts the slots: it counts none itself. */
#ifndef STARTS_H
#define STARTS_H

/*
 * Counts this start in a variable of the firmware's, whose variables are files in the folder, unless no slot was started
 * or there is no other.  After three starts of one slot systemd-boot is to start the other one, by its own variable, for
 * three times as well.  PID 1 removes both variables once it has come up, python/talos/upgrade/slots/systemd_boot/starts.py.
 *
 * Returns the count, 0 where nothing was counted.  A variable that can't be written is reported, and that is all.
 */
int count_start(const char *folder);

#endif
