//! Waits and what ends them.

use crate::on_both;
use esker_uring::{Operation, mailbox};
use std::time::Duration;

#[test]
fn a_wait_ends_after_its_timeout() {
    on_both(|mut reactor| {
        let mut none = Vec::new();
        reactor.wait(Some(Duration::from_millis(1)), &mut none).unwrap();
        reactor.wait(Some(Duration::ZERO), &mut none).unwrap();
        assert!(none.is_empty());
    });
}

#[test]
fn a_wake_before_a_wait_ends_it() {
    on_both(|mut reactor| {
        reactor.waker().wake();
        reactor.waker().wake();
        // Without the wake this would wait for ever.
        reactor.wait(None, &mut Vec::new()).unwrap();
    });
}

#[test]
fn every_message_arrives_and_wakes() {
    on_both(|mut reactor| {
        let (sender, inbox) = mailbox(&reactor);
        let (senders, messages) = (4, 2000);
        std::thread::scope(|scope| {
            for sent_by in 0..senders {
                let sender = sender.clone();
                scope.spawn(move || {
                    for number in 0..messages {
                        sender.send((sent_by, number)).unwrap();
                    }
                });
            }
            let mut next = vec![0; senders];
            while next.iter().sum::<usize>() < senders * messages {
                reactor.wait(None, &mut Vec::new()).unwrap();
                while let Some((sent_by, number)) = inbox.take() {
                    assert_eq!(number, next[sent_by], "messages of one sender keep their order");
                    next[sent_by] += 1;
                }
            }
        });
    });
}

#[test]
fn a_message_to_nobody_comes_back() {
    on_both(|reactor| {
        let (sender, inbox) = mailbox(&reactor);
        drop(inbox);
        assert_eq!(sender.send(7), Err(7));
    });
}

#[test]
fn beyond_the_bound_an_operation_is_given_back() {
    on_both(|mut reactor| {
        let timeout = || Operation::Timeout { after: Duration::from_secs(1000) };
        let ids: Vec<_> = (0..64).map(|token| reactor.submit(token, timeout()).unwrap()).collect();
        let refused = reactor.submit(64, timeout()).unwrap_err();
        assert!(matches!(refused.0, Operation::Timeout { .. }));
        reactor.cancel(ids[10]);
        let mut found = Vec::new();
        while found.is_empty() {
            reactor.wait(None, &mut found).unwrap();
        }
        assert_eq!(found[0].token, 10);
        reactor.submit(65, timeout()).unwrap();
    });
}
