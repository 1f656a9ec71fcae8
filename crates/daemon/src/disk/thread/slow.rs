//! A slow disk of a mirror is taken out.

use units::Instant;

use super::DiskThread;

impl DiskThread {
    /// Takes the disk for failed if it is too slow and every block has a whole copy elsewhere: what
    /// it alone has is worth waiting for.
    pub(super) fn give_up_if_slow(&mut self, now: Instant) {
        let Some(pool) = &self.pool else { return };
        if self.slow_until.is_some_and(|until| now < until) {
            return;
        }
        let Some(why) = self.disk.slowness(now) else { return };
        // The pool looks at each block: once in a while is enough.
        self.slow_until = Some(now + super::SLEEP_MAX);
        if pool.can_spare(self.index) {
            eprintln!("disk {}: too slow: {why}: taken out", self.name);
            self.disk.give_up(now);
            self.reap(now);
        }
    }
}
