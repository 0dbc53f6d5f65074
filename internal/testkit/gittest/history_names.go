// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// tidyNames are elements of names that a bundle can hold, in pairs and triples that sort in
// surprising ways.
func tidyNames() []string {
	return []string{
		"a", "a.b", "a-b", "a0", "a b", "A", "app", "app.yaml", "app-x", "with space", " leading", "trailing ", "trailing.",
		"trailing..", "...", "..a", "-rf", "--help", "-", `quote"d`, "it's", "`tick`", "$HOME", "$(id)", "*", "?", "[x]", "{a,b}", "~",
		"#x", "!bang", "%2e%2e", "a:b", ":(top)a", "@{upstream}", "HEAD", "con", "NUL", "aux.txt", ".hidden", ".gitignore", "tab\there",
		"new\nline", "\x7f", "\x01", "naïve", "nai\u0308ve", "Ü", "U\u0308", "日本語", "😀", "\u200d", "\u202ertl", "ﬁ",
		strings.Repeat("l", 99), strings.Repeat("l", 100), strings.Repeat("l", 101), strings.Repeat("long", 60), strings.Repeat("ü", 90),
	}
}

// wildNames are elements of names that a bundle refuses.
func wildNames() []string {
	return []string{`back\slash`, `..\up`, "\xff\xfe", "latin1-\xe9", "cut-\xe6\x97", "\xed\xa0\x80"}
}

// change makes one change to a tree.
func (h *historian) change(w tree) {
	if len(w) > most {
		h.shrink(w)
		return
	}
	switch h.rand.IntN(16) {
	case 0, 1, 2:
		h.add(w)
	case 3, 4, 5:
		h.edit(w)
	case 6:
		h.move(w, false)
	case 7:
		h.move(w, true)
	case 8:
		h.moveFolder(w)
	case 9:
		h.toggle(w)
	case 10:
		h.link(w)
	case 11:
		h.submodule(w)
	case 12:
		delete(w, h.pick(w))
	case 13:
		h.removeFolder(w, h.pick(w))
	case 14:
		h.swap(w)
	default:
		h.large(w)
	}
}

// shrink deletes until a tree is small enough again.
func (h *historian) shrink(w tree) {
	for len(w) > most {
		delete(w, h.pick(w))
	}
}

// pick returns the path of an entry, or "" if there is none.
func (h *historian) pick(w tree) string {
	if len(w) == 0 {
		return ""
	}
	return slices.Sorted(maps.Keys(w))[h.rand.IntN(len(w))]
}

// name makes up a path, often within an existing folder.
func (h *historian) name(w tree) string {
	folder := "tidy"
	if h.rand.IntN(4) == 0 {
		folder = "wild"
	}
	if near := h.pick(w); near != "" && h.rand.IntN(2) == 0 {
		folder = path.Dir(near)
	}
	if folder == "." {
		folder = "tidy"
	}
	names := tidyNames()
	if strings.HasPrefix(folder, "wild") && h.rand.IntN(3) == 0 {
		names = wildNames()
	}
	for range h.rand.IntN(3) {
		folder += "/" + tidyNames()[h.rand.IntN(len(tidyNames()))]
	}
	const deep = 1500 // bytes; what git can check out, and less than a bundle can hold
	if len(folder) > deep {
		folder = "tidy"
	}
	return folder + "/" + names[h.rand.IntN(len(names))]
}

// text makes up a content. Some of it recurs.
func (h *historian) text() string {
	switch h.rand.IntN(6) {
	case 0:
		return ""
	case 1:
		return "the same everywhere\n"
	case 2:
		return fmt.Sprintf("binary\x00%d\r\n\xff", h.rand.IntN(100))
	case 3:
		return strings.Repeat(fmt.Sprintf("line %d of a longer file\n", h.rand.IntN(50)), h.rand.IntN(200))
	default:
		return fmt.Sprintf("value: %d\n", h.rand.IntN(1000))
	}
}

func (h *historian) add(w tree) {
	f := Text(h.text())
	if h.rand.IntN(5) == 0 {
		f = Executable(f.content)
	}
	w.set(h.name(w), f)
}

func (h *historian) edit(w tree) {
	at := h.pick(w)
	if f := w[at]; f.mode == "100644" || f.mode == "100755" {
		f.content += h.text()
		const enough = 64 << 10
		if len(f.content) > enough {
			f.content = h.text()
		}
		w[at] = f
	}
}

// move renames an entry, or copies it.
func (h *historian) move(w tree, keep bool) {
	from := h.pick(w)
	f, ok := w[from]
	if !ok {
		return
	}
	to := h.name(w)
	if strings.HasPrefix(to, "tidy/") && !tidy(to, f) {
		return
	}
	if !keep {
		delete(w, from)
	}
	w.set(to, f)
}

// tidy reports whether an entry may be below "tidy", whatever its name.
func tidy(at string, f File) bool {
	switch f.mode {
	case modeSubmodule:
		return false
	case "120000": // from another depth it may lead elsewhere
		return !strings.HasPrefix(f.content, "/") && !strings.Contains(f.content, "..") && !strings.Contains(f.content, `\`) && at != ""
	}
	return true
}

// moveFolder renames the folder of an entry with its content.
func (h *historian) moveFolder(w tree) {
	from := path.Dir(h.pick(w))
	if from == "." || from == "tidy" || from == "wild" {
		return
	}
	to := path.Dir(from) + "/" + tidyNames()[h.rand.IntN(len(tidyNames()))]
	if strings.HasPrefix(to, from+"/") || to == from {
		return
	}
	moved := tree{}
	for at, f := range w {
		if rest, inside := strings.CutPrefix(at, from+"/"); inside {
			moved[to+"/"+rest] = f
		}
	}
	maps.DeleteFunc(w, func(at string, _ File) bool { return strings.HasPrefix(at, from+"/") })
	for _, at := range slices.Sorted(maps.Keys(moved)) {
		w.set(at, moved[at])
	}
}

func (h *historian) removeFolder(w tree, at string) {
	folder := path.Dir(at)
	if folder == "tidy" || folder == "wild" {
		folder = at // or nothing would ever grow
	}
	maps.DeleteFunc(w, func(other string, _ File) bool { return other == folder || strings.HasPrefix(other, folder+"/") })
}

// toggle changes the executable bit and nothing else.
func (h *historian) toggle(w tree) {
	at := h.pick(w)
	switch f := w[at]; f.mode {
	case "100644":
		w[at] = Executable(f.content)
	case "100755":
		w[at] = Text(f.content)
	}
}

func (h *historian) link(w tree) {
	at := h.name(w)
	if there := h.pick(w); there != "" && h.rand.IntN(3) == 0 {
		at = there
	}
	targets := []string{"a", "a/b", ".", "./a", "missing", "日本語", "a//b", "x/", strings.Repeat("t", 120)}
	if strings.HasPrefix(at, "wild/") {
		targets = append(targets, "/etc/passwd", strings.Repeat("../", 40)+"etc", "a/../b", `..\up`, "\xff", "..")
	} else if strings.Count(at, "/") > 1 {
		targets = append(targets, "..", "../a", ".././a")
	}
	w.set(at, Symlink(targets[h.rand.IntN(len(targets))]))
}

func (h *historian) submodule(w tree) {
	at := "wild/sub-" + fmt.Sprint(h.rand.IntN(4))
	w.set(at, File{mode: modeSubmodule, content: fmt.Sprintf("%040x", 1+h.rand.Uint64())})
}

// swap turns a file into a folder, or a folder into a file.
func (h *historian) swap(w tree) {
	at := h.pick(w)
	folder := path.Dir(at)
	switch {
	case at == "":
	case h.rand.IntN(2) == 0 || folder == "tidy" || folder == "wild":
		w.set(at+"/"+tidyNames()[h.rand.IntN(len(tidyNames()))], Text("was a file\n"))
	default:
		w.set(folder, Text("was a folder\n"))
	}
}

// large is a blob that is too large to hold in memory. It is rare and short-lived: the next such
// change removes it.
func (h *historian) large(w tree) {
	const at, size = "tidy/large", 5 << 20
	if _, there := w[at]; there {
		delete(w, at)
		return
	}
	if h.rand.IntN(20) == 0 {
		w.set(at, Text(strings.Repeat(fmt.Sprintf("%07d\n", h.rand.IntN(10)), size/8)))
	}
}
