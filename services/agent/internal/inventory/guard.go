// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Guard stops a prune that would take too much at once: the mark of a folder that was emptied or a path that was mistyped.
type Guard struct {
	// Percent is the share that may go without a question. A prune stops when more than that would go.
	Percent int
	// Objects is the number below which no prune is ever stopped.
	Objects int
}

// DefaultGuard stops when more than 30 % and at least 5 would go.
func DefaultGuard() Guard {
	return Guard{Percent: 30, Objects: 5}
}

// Stops tells whether going of total are too many to delete without a confirmation.
func (g Guard) Stops(total, going int) bool {
	return going >= g.Objects && going*100 > total*g.Percent
}

// Departure is what would leave a service, for the guard to judge.
type Departure struct {
	// Base is the number of objects after the latest complete run.
	Base int
	// Pruned is how many have been deleted since, without anybody's agreement, or were about to be.
	Pruned int
	// Left is how many objects the manifests hold.
	Left int
	// Going are the objects that would leave. Those that would be detached count like those that would be deleted: both are
	// signs of an emptied folder.
	Going []Object
}

// Holds tells whether the departure needs the agreement of a person: it is too large, or would leave nothing over.
// Objects whose departure was agreed to do not count.
func (g Guard) Holds(d Departure) bool {
	unasked, uncounted := 0, 0
	for _, o := range d.Going {
		if o.Agreed {
			continue
		}
		unasked++
		if !o.Counted {
			uncounted++
		}
	}
	if unasked == 0 {
		return false
	}
	return d.Left == 0 || g.Stops(d.Base, d.Pruned+uncounted)
}

// Digest names a set of objects, so that a person agrees to the departure of exactly these.
func Digest(service string, objects []Object) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", service)
	for _, o := range NewSet(objects...).Objects() {
		fmt.Fprintf(h, "%q%q%q%q%q", o.Group, o.Kind, o.Namespace, o.Name, o.UID)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
