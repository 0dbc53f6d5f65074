// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Guard stops a prune that would delete too much at once, which suggests an emptied folder or a
// mistyped path.
type Guard struct {
	// Percent is the share that may go without a confirmation. A prune that would delete more
	// stops.
	Percent int
	// Objects is the number below which no prune is ever stopped.
	Objects int
}

// DefaultGuard stops a prune of more than 30 % and at least 5 objects.
func DefaultGuard() Guard {
	return Guard{Percent: 30, Objects: 5}
}

// Stops reports whether going of total are too many to delete without a confirmation.
func (g Guard) Stops(total, going int) bool {
	return going >= g.Objects && going*100 > total*g.Percent
}

// Departure describes the objects that would leave a service, as input for the guard.
type Departure struct {
	// Base is the number of objects after the latest complete run.
	Base int
	// Pruned is the number of objects deleted since then without a person's agreement, including
	// deletions that were about to begin.
	Pruned int
	// Left is the number of objects in the manifests.
	Left int
	// Going are the objects that would leave. Objects to be detached count like those to be
	// deleted: both indicate an emptied folder.
	Going []Object
}

// Holds reports whether the departure needs a person's agreement, because it is too large or would
// leave no object. Objects whose departure was agreed to do not count.
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

// Digest identifies a set of objects, so that a person agrees to the departure of exactly these.
func Digest(service string, objects []Object) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", service)
	for _, o := range NewSet(objects...).Objects() {
		fmt.Fprintf(h, "%q%q%q%q%q", o.Group, o.Kind, o.Namespace, o.Name, o.UID)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
