//! Memory that holds an image: a region of its own, or one that becomes image after image.

use super::SimRegion;
use super::crash::Image;
use std::sync::Arc;

/// See the module's text.
#[derive(Default)]
pub struct ImageLoader {
    region: Option<Arc<SimRegion>>,
    /// Of the durable words that the region holds, but for what was touched.
    generation: Option<u64>,
}

impl ImageLoader {
    /// An empty bench.
    pub fn new() -> ImageLoader {
        ImageLoader::default()
    }

    /// Memory that holds the image, as after a restart. Panics if the memory of the image before is
    /// still in use.
    pub fn load(&mut self, image: &Image<'_>) -> Arc<SimRegion> {
        let state = image.state();
        let known = self.generation == Some(state.generation());
        let mut region = match self.region.take() {
            Some(region) if known => region,
            _ => Arc::new(state.image(0).to_region()),
        };
        self.generation = Some(state.generation());
        let inside = Arc::get_mut(&mut region).expect("the image before is not in use");
        inside.undo(state.durable());
        inside.change(image.changed_words());
        self.region.insert(region).clone()
    }
}

impl Image<'_> {
    /// Memory that holds the image, as after a restart. For many images use an [`ImageLoader`].
    pub fn to_region(&self) -> SimRegion {
        let mut words = self.state().durable().to_vec();
        for &(word, value) in self.changed_words() {
            words[word as usize] = value;
        }
        SimRegion::holding(words)
    }
}

impl SimRegion {
    /// Takes back all that was touched since an image was loaded.
    fn undo(&mut self, durable: &[u64]) {
        let inner = self.inner.get_mut();
        let touched = inner.touched.take().unwrap_or_default();
        inner.medium.reset(durable, &touched);
        for word in touched {
            self.memory.store(word as usize, durable[word as usize]);
        }
        (inner.flushes, inner.fences) = (0, 0);
        (inner.drop_flush, inner.drop_fence) = (None, None);
        (inner.history, inner.interrupt) = (None, None);
    }

    /// Makes the words of an image durable.
    fn change(&mut self, words: &[(u32, u64)]) {
        let inner = self.inner.get_mut();
        for &(word, value) in words {
            self.memory.store(word as usize, value);
            inner.medium.set(word, value);
        }
        inner.touched = Some(words.iter().map(|&(word, _)| word).collect());
    }
}
