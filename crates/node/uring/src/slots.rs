//! Operations in progress, each in a slot with a number. A slot's number comes again, it together with its generation does not
//! and its generation does not (for four billion uses), so that a late cancel strikes no other thread.

/// Names an operation in progress, to cancel it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationId {
    index: u32,
    generation: u32,
}

impl OperationId {
    /// As one word, for the kernel to carry.
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_word(word: u64) -> Self {
        OperationId { index: word as u32, generation: (word >> 32) as u32 }
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    content: Option<T>,
}

/// At most a fixed number of values.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    limit: u32,
}

impl<T> Slots<T> {
    pub fn new(limit: u32) -> Self {
        Slots { slots: Vec::new(), free: Vec::new(), limit }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a value in, or gives it back if there is no space.
    pub fn insert(&mut self, content: T) -> Result<OperationId, T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.limit as usize => {
                self.slots.push(Slot { generation: 0, content: None });
                self.slots.len() as u32 - 1
            }
            None => return Err(content),
        };
        let slot = &mut self.slots[index as usize];
        slot.content = Some(content);
        Ok(OperationId { index, generation: slot.generation })
    }

    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        slot.content.as_mut().filter(|_| slot.generation == id.generation)
    }

    pub fn remove(&mut self, id: OperationId) -> Option<T> {
        self.get_mut(id)?;
        let slot = &mut self.slots[id.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
        slot.content.take()
    }

    pub fn ids(&self) -> Vec<OperationId> {
        let slots = self.slots.iter().zip(0..);
        let used = slots.filter(|(slot, _)| slot.content.is_some());
        used.map(|(slot, index)| OperationId { index, generation: slot.generation }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_the_limit() {
        let mut slots = Slots::new(2);
        let first = slots.insert('a').unwrap();
        slots.insert('b').unwrap();
        assert_eq!(slots.insert('c'), Err('c'));
        assert_eq!(slots.remove(first), Some('a'));
        assert!(slots.insert('c').is_ok());
    }

    #[test]
    fn an_old_name_finds_nothing_in_a_slot_used_again() {
        let mut slots = Slots::new(1);
        let old = slots.insert('a').unwrap();
        slots.remove(old);
        let new = slots.insert('b').unwrap();
        assert_eq!(slots.get_mut(old), None);
        assert_eq!(slots.remove(old), None);
        assert_eq!(slots.get_mut(new), Some(&mut 'b'));
        assert_eq!(OperationId::from_word(new.to_word()), new);
    }
}
