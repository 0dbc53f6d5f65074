// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import "sync"

// generations knows which generation of each mirror is current, and who uses which folder. Users
// are open readers, the draft that writes a temporary generation, and a compaction, of the
// generation that it compacts. It touches no disk, and may be used concurrently.
type generations struct {
	mu      sync.Mutex
	current map[string]string // uid → folder
	users   map[string]int    // folder → how many use it; no entry: none
	retired map[string]bool   // folders that go with their last user; each has users
}

func newGenerations() *generations {
	return &generations{current: map[string]string{}, users: map[string]int{}, retired: map[string]bool{}}
}

// get returns the current generation of a mirror, or "" where there is none.
func (g *generations) get(uid string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current[uid]
}

// set makes a generation current. The one before it keeps its users.
func (g *generations) set(uid, dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current[uid] = dir
}

// drop leaves a mirror without a current generation.
func (g *generations) drop(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.current, uid)
}

// enter begins a use of the current generation, and reports whether there is one. The caller ends
// the use with leave.
func (g *generations) enter(uid string) (dir string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	dir, ok = g.current[uid]
	if ok {
		g.users[dir]++
	}
	return dir, ok
}

// hold begins a use of a folder that is not current, and need not exist yet.
func (g *generations) hold(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users[dir]++
}

// leave ends a use, and reports whether the folder is to be removed now.
func (g *generations) leave(dir string) (isRemovable bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users[dir]--; g.users[dir] > 0 {
		return false
	}
	isRemovable = g.retired[dir]
	delete(g.users, dir)
	delete(g.retired, dir)
	return isRemovable
}

// retire reports whether the folder is to be removed now. Otherwise the leave of its last user
// reports it.
func (g *generations) retire(dir string) (isRemovable bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users[dir] == 0 {
		return true
	}
	g.retired[dir] = true
	return false
}
