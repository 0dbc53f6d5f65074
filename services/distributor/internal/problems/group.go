// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxCauses bounds the messages that are told apart. Beyond it, problems with the same reason are one.
	maxCauses = 1000
	// maxExamples bounds the objects that a group names.
	maxExamples = 10
	// maxMessage bounds how much of a message is compared and shown.
	maxMessage = 400
)

// Group is one cause, and what it affects.
type Group struct {
	// Item is the first problem of the group. Its message stands for all.
	Item

	// Objects and Clusters count the affected ones.
	Objects, Clusters int
	// Services counts the services of affected clusters.
	Services int
	// First and Last are when the first and the last object were affected. Zero: not known.
	First, Last time.Time
	// Examples are paths of affected objects, in their order.
	Examples []string
}

// cause is the common part of a group's problems.
type cause struct {
	severity           Severity
	kind               catalog.Kind
	reason             reason.Reason
	message            string
	repository, commit string
}

// Grouper groups problems by their cause. The zero Grouper is ready for use. It is for one goroutine.
type Grouper struct {
	groups map[cause]*grown
}

// grown is a group with the clusters that it counts.
type grown struct {
	Group

	clusters map[string]struct{}
}

// Add adds a problem. services is how many services the affected cluster has.
func (g *Grouper) Add(item Item, services int) {
	if g.groups == nil {
		g.groups = map[cause]*grown{}
	}
	item.Message = shortened(item.Message)
	key := cause{
		severity: item.Severity, kind: item.Kind, reason: item.Reason, message: Normalize(item.Message, item.names...),
		repository: item.Repository, commit: item.Commit,
	}
	if g.groups[key] == nil && len(g.groups) >= maxCauses {
		key.message, key.repository, key.commit = "", "", ""
		item.Message, item.Repository, item.Commit, item.Version = "several messages", "", "", ""
	}
	group := g.groups[key]
	if group == nil {
		group = &grown{Group: Group{Item: item}, clusters: map[string]struct{}{}}
		g.groups[key] = group
	}
	group.Objects++
	group.Services += services
	if item.Cluster != "" {
		group.clusters[item.Cluster] = struct{}{}
	}
	if !item.Since.IsZero() {
		if group.First.IsZero() || item.Since.Before(group.First) {
			group.First = item.Since
		}
		if item.Since.After(group.Last) {
			group.Last = item.Since
		}
	}
	if len(group.Examples) < maxExamples {
		group.Examples = append(group.Examples, item.Path)
	}
}

// Groups returns at most limit groups, the worst first, and how many there are beyond them. Of equal
// severity, lost clusters come first, then what affects the most, then what began last.
func (g *Grouper) Groups(limit int) (groups []Group, omitted int) {
	for _, group := range g.groups {
		group.Clusters = len(group.clusters)
		groups = append(groups, group.Group)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity), cmp.Compare(rank(a.Kind), rank(b.Kind)),
			cmp.Compare(b.Objects, a.Objects), b.First.Compare(a.First), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message),
		)
	})
	if len(groups) > limit {
		groups, omitted = groups[:limit], len(groups)-limit
	}
	return groups, omitted
}

// rank orders kinds: the cause of much comes before its effects.
func rank(kind catalog.Kind) int {
	return slices.Index([]catalog.Kind{
		catalog.KindCluster, catalog.KindRepository, catalog.KindConfigBackend, catalog.KindFleetSource, catalog.KindImagePolicy, catalog.KindRolloutPolicy,
		catalog.KindGlobalService, catalog.KindNotifier, catalog.KindService,
	}, kind)
}

// shortened returns the beginning of a message.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := message[:maxMessage]
	for !utf8.ValidString(cut) && cut != "" {
		cut = cut[:len(cut)-1]
	}
	return cut + "…"
}

// Normalize returns a message without what differs between objects with the same problem:
//
//   - the names, wherever they are words, become "…";
//   - words of seven and more hexadecimal digits with at least one figure, such as commits and hashes,
//     become "#", and so does every run of figures: counts, times, addresses, ports;
//   - the last part of names that Kubernetes makes, such as web-7d9f8b6c5d-x2x4z, becomes "#".
//
// Runs of spaces become one. The rest is the cause.
func Normalize(message string, names ...string) string {
	var out strings.Builder
	for word := range words(message) {
		switch {
		case isSpace(word[0]):
			word = " "
		case slices.Contains(names, word) && isWord(word[0]):
			word = "…"
		case isWord(word[0]):
			word = normalWord(word, names)
		}
		out.WriteString(word)
	}
	return out.String()
}

// words yields the words of a message, and the text between them. A word has letters, figures, "-",
// "_" and the bytes of other scripts.
func words(message string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for start := 0; start < len(message); {
			end := start + 1
			kind := kindOf(message[start])
			for end < len(message) && kindOf(message[end]) == kind {
				end++
			}
			if !yield(message[start:end]) {
				return
			}
			start = end
		}
	}
}

func kindOf(b byte) int {
	switch {
	case isSpace(b):
		return 0
	case isWord(b):
		return 1
	}
	return 2
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func isFigure(b byte) bool { return '0' <= b && b <= '9' }

func isLetter(b byte) bool { return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }

func isWord(b byte) bool {
	return isLetter(b) || isFigure(b) || b == '-' || b == '_' || b >= utf8.RuneSelf
}

// normalWord normalizes one word, part by part.
func normalWord(word string, names []string) string {
	// The longest of the names that the word begins with is one, and what Kubernetes adds another.
	longest := ""
	for _, name := range names {
		if strings.HasPrefix(word, name+"-") && len(name) > len(longest) {
			longest = name
		}
	}
	prefix := ""
	if longest != "" {
		prefix, word = "…", word[len(longest):]
	}
	parts := strings.Split(word, "-")
	for i, part := range parts {
		if isHash(part) || i > 0 && i >= len(parts)-2 && isSuffix(part) {
			parts[i] = "#"
			continue
		}
		parts[i] = withoutFigures(part)
	}
	return prefix + strings.Join(parts, "-")
}

// isHash reports whether a part is hexadecimal, and no word.
func isHash(part string) bool {
	hasFigure := false
	for i := range len(part) {
		b := part[i]
		if !isFigure(b) && (b < 'a' || b > 'f') {
			return false
		}
		hasFigure = hasFigure || isFigure(b)
	}
	return hasFigure && len(part) >= 7
}

// isSuffix reports whether Kubernetes makes such parts: it leaves out vowels, 0, 1 and 3.
func isSuffix(part string) bool {
	if len(part) < 5 || len(part) > 10 {
		return false
	}
	hasFigure := false
	for i := range len(part) {
		if !strings.ContainsRune("bcdfghjklmnpqrstvwxz2456789", rune(part[i])) {
			return false
		}
		hasFigure = hasFigure || isFigure(part[i])
	}
	return hasFigure || len(part) == 5
}

// withoutFigures replaces every run of figures.
func withoutFigures(part string) string {
	var out strings.Builder
	for i := range len(part) {
		switch {
		case !isFigure(part[i]):
			out.WriteByte(part[i])
		case i == 0 || !isFigure(part[i-1]):
			out.WriteByte('#')
		}
	}
	return out.String()
}
