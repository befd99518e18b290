//! Concurrent questions in paused time: each is asked once, and answers expire.

use std::sync::atomic::AtomicUsize;

use futures::future::join_all;
use tokio::time::sleep;

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn unavailable<V>() -> Result<(V, Duration), ReviewError> {
    Err(ReviewError::Failed("unavailable".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_asked_for_once_until_it_expires() {
    let (cache, asked) = (AnswerCache::new(|_| true), AtomicUsize::new(0));
    let get = || {
        cache.get("question", async {
            sleep(Duration::from_secs(1)).await;
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(("answer", TTL))
        })
    };
    for result in join_all([get(), get(), get()]).await {
        assert_eq!(result.unwrap(), "answer");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    tokio::time::advance(TTL).await;
    get().await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_of_all_who_wait_for_it_and_of_nobody_else() {
    let (cache, asked) = (AnswerCache::<_, ()>::new(|()| true), AtomicUsize::new(0));
    let get = || {
        cache.get("question", async {
            asked.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            unavailable()
        })
    };
    for result in join_all([get(), get(), get()]).await {
        assert_eq!(
            result.unwrap_err().to_string(),
            ReviewError::Failed("unavailable".to_owned()).to_string()
        );
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    get().await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_asking_leaves_the_question_to_the_next() {
    let cache = AnswerCache::new(|_| true);
    let slow = cache.get("question", async {
        sleep(TTL).await;
        unavailable()
    });
    let patient = async {
        sleep(Duration::from_secs(1)).await;
        cache.get("question", async { Ok(("answer", TTL)) }).await
    };
    let (left, answer) = tokio::join!(tokio::time::timeout(Duration::from_secs(2), slow), patient);
    assert!(left.is_err());
    assert_eq!(answer.unwrap(), "answer");
}

#[tokio::test(start_paused = true)]
async fn answers_are_bounded_and_negative_ones_push_out_no_positive_one() {
    let (cache, asked) = (AnswerCache::new(|answer| *answer), AtomicUsize::new(0));
    let get = |question: usize, answer| {
        let asked = &asked;
        cache.get(question, async move {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok((answer, TTL))
        })
    };
    get(0, true).await.unwrap();
    for question in 1..3 * MOST {
        get(question, false).await.unwrap();
        assert!(cache.slots.lock().by_question.len() <= MOST);
    }
    assert_eq!(asked.swap(0, Ordering::Relaxed), 3 * MOST);
    // The client's answer, and the latest others.
    for (question, answer) in [(0, true), (3 * MOST - 1, false), (2 * MOST + 2, false)] {
        assert_eq!(get(question, answer).await.unwrap(), answer, "{question}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    get(1, false).await.unwrap();
    assert_eq!(asked.swap(0, Ordering::Relaxed), 1, "the oldest was forgotten");
    for question in 3 * MOST..5 * MOST {
        get(question, true).await.unwrap();
    }
    assert!(cache.slots.lock().by_question.len() <= MOST, "also of positive ones");
}

#[tokio::test(start_paused = true)]
async fn questions_in_progress_are_not_forgotten() {
    let (cache, asked) = (AnswerCache::new(|_| true), AtomicUsize::new(0));
    let get = |question: usize| {
        let (cache, asked) = (&cache, &asked);
        async move {
            let ask = async {
                asked.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
                Ok((true, TTL))
            };
            cache.get(question, ask).await.unwrap()
        }
    };
    let all = (0..2 * MOST).map(&get);
    let again = (0..MOST).map(&get);
    join_all(all.chain(again)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 2 * MOST);
}
