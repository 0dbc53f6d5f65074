// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is what is remembered of an object.
type Object struct {
	Namespace, Name string // Namespace is empty for objects of the cluster
	UID             string
	Label           string // value of Params.Label; empty where the object has none
}

// Known is the set of objects that a collection holds, as far as was heard. It is there to find out what is missing from a
// later list, so it keeps little of each object: about 100 bytes and its name. The zero Known is not usable; see NewKnown.
// It is for one goroutine.
type Known struct {
	objects map[key]entry
	uids    map[uid]uint32 // in place of objects, the round of each; nil unless made by NewKnownUIDs
	strange map[uid]string // UIDs that are no UUIDs
	round   uint32         // grows with every list
}

// NewKnown returns an empty set.
func NewKnown() *Known {
	return &Known{objects: map[key]entry{}, strange: map[uid]string{}}
}

// NewKnownUIDs returns an empty set that remembers UIDs alone, in about 40 bytes an object: for those who count, or know objects by
// their UID. What is gone is told with its UID and without name, namespace and label, and what the server does not tell as deleted,
// such as an object that another has taken the place of meanwhile, is told by the end of the next list.
func NewKnownUIDs() *Known {
	return &Known{uids: map[uid]uint32{}, strange: map[uid]string{}}
}

// key names an object of the collection.
type key struct {
	namespace unique.Handle[string]
	name      string
}

type entry struct {
	uid   uid
	label unique.Handle[string]
	round uint32 // of the latest list or event that had it
}

// uid is a UUID in binary, or a hash of what the server has instead of one.
type uid [16]byte

// Len is the number of objects.
func (k *Known) Len() int { return len(k.objects) + len(k.uids) }

// Objects lists them in no order.
func (k *Known) Objects() []Object {
	all := make([]Object, 0, k.Len())
	for id := range k.uids {
		all = append(all, Object{UID: k.decode(id)})
	}
	for key, entry := range k.objects {
		all = append(all, k.object(key, entry))
	}
	return all
}

// begin starts a round: what is not put before sweep is gone.
func (k *Known) begin() { k.round++ }

// put takes an object in. If it takes the place of one with another UID or label, that one is returned.
func (k *Known) put(o *unstructured.Unstructured, label string) (before Object, replaced bool) {
	id := k.encode(string(o.GetUID()))
	if k.uids != nil {
		k.uids[id] = k.round
		return Object{}, false
	}
	at := keyOf(o)
	now := entry{uid: id, label: unique.Make(labelOf(o, label)), round: k.round}
	old, had := k.objects[at]
	k.objects[at] = now
	if !had || old.uid == now.uid && old.label == now.label {
		return Object{}, false
	}
	before = k.object(at, old)
	if old.uid != now.uid {
		delete(k.strange, old.uid)
	}
	return before, true
}

// remove takes out the object of that name, and returns what was known of it.
func (k *Known) remove(o *unstructured.Unstructured) (Object, bool) {
	if k.uids != nil {
		return k.removeUID(k.encode(string(o.GetUID())))
	}
	at := keyOf(o)
	old, had := k.objects[at]
	if !had {
		return Object{}, false
	}
	object := k.object(at, old)
	k.drop(at, old)
	return object, true
}

func (k *Known) removeUID(id uid) (Object, bool) {
	_, had := k.uids[id]
	object := Object{UID: k.decode(id)}
	delete(k.uids, id)
	delete(k.strange, id)
	return object, had
}

// sweep takes out and then tells all objects that were not put in this round.
func (k *Known) sweep(gone func(Object)) {
	for at, entry := range k.objects {
		if entry.round != k.round {
			object := k.object(at, entry)
			k.drop(at, entry)
			gone(object)
		}
	}
	for id, round := range k.uids {
		if round != k.round {
			object, _ := k.removeUID(id)
			gone(object)
		}
	}
}

// Clear takes out and tells all objects.
func (k *Known) Clear(gone func(Object)) {
	k.begin()
	k.sweep(gone)
}

func (k *Known) drop(at key, e entry) {
	delete(k.objects, at)
	delete(k.strange, e.uid)
}

func (k *Known) object(at key, e entry) Object {
	return Object{Namespace: at.namespace.Value(), Name: at.name, UID: k.decode(e.uid), Label: e.label.Value()}
}

func keyOf(o *unstructured.Unstructured) key {
	return key{namespace: unique.Make(o.GetNamespace()), name: o.GetName()}
}

// labelOf is the value of a label. Unlike GetLabels it copies nothing.
func labelOf(o *unstructured.Unstructured, label string) string {
	value, _, _ := unstructured.NestedString(o.Object, "metadata", "labels", label)
	return value
}

// The places of the hyphens in the canonical text of a UUID.
const (
	uuidLength = 36
	hyphen1    = 8
	hyphen2    = 13
	hyphen3    = 18
	hyphen4    = 23
)

// encode stores a UID in 16 bytes. The API server makes UUIDs; servers behind it may make what they like.
func (k *Known) encode(text string) uid {
	if packed, ok := pack(text); ok && packed.String() == text {
		return packed
	}
	hash := sha256.Sum256([]byte(text))
	id := uid(hash[:16])
	k.strange[id] = text
	return id
}

func (k *Known) decode(id uid) string {
	if text, ok := k.strange[id]; ok {
		return text
	}
	return id.String()
}

func pack(text string) (id uid, ok bool) {
	if len(text) != uuidLength {
		return id, false
	}
	var digits [32]byte
	n := copy(digits[:], text[:hyphen1])
	n += copy(digits[n:], text[hyphen1+1:hyphen2])
	n += copy(digits[n:], text[hyphen2+1:hyphen3])
	n += copy(digits[n:], text[hyphen3+1:hyphen4])
	copy(digits[n:], text[hyphen4+1:])
	_, err := hex.Decode(id[:], digits[:])
	return id, err == nil
}

// String is the canonical text of a UUID.
func (u uid) String() string {
	var text [uuidLength]byte
	hex.Encode(text[:hyphen1], u[:4])
	hex.Encode(text[hyphen1+1:hyphen2], u[4:6])
	hex.Encode(text[hyphen2+1:hyphen3], u[6:8])
	hex.Encode(text[hyphen3+1:hyphen4], u[8:10])
	hex.Encode(text[hyphen4+1:], u[10:])
	for _, at := range [...]int{hyphen1, hyphen2, hyphen3, hyphen4} {
		text[at] = '-'
	}
	return string(text[:])
}
