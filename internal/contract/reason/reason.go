// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package reason holds the closed list of reasons that anything in Leat can fail with, for code
// that must not know the wire format. The constants are generated from
// proto/leat/errors/v1/reason.proto, so a misspelt reason does not compile. Their numbers are the
// wire's: a conversion to or from errorsv1.Reason is exact.
package reason

// Reason is why something failed. Its numbers are from leat.errors.v1.Reason. A zero Reason is
// unset. It is not an int32, so that vet finds conversions to string, which would turn the number
// into a character.
type Reason uint16

// FromNumber returns the reason with that number on the wire: Internal for a number from a newer
// release, and zero for zero.
func FromNumber(number int32) Reason {
	for r := range names {
		if int32(r) == number {
			return r
		}
	}
	return Internal
}

// String returns the name used in documents and in google.rpc.ErrorInfo.reason, such as NOT_FOUND.
// For a number that this program does not know it returns INTERNAL.
func (r Reason) String() string {
	if name, known := names[r]; known {
		return name
	}
	return names[Internal]
}

// Parse returns the reason with that name, and false for an unknown name.
func Parse(name string) (Reason, bool) {
	for r, known := range names {
		if known == name {
			return r, r != 0
		}
	}
	return 0, false
}

// unset is how distributors once stored a problem that has no reason.
const unset = "UNSPECIFIED"

// MarshalText implements encoding.TextMarshaler.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. A name that this program does not know, such
// as one that a newer release stored, becomes Internal.
func (r *Reason) UnmarshalText(text []byte) error {
	parsed, known := Parse(string(text))
	switch {
	case known:
		*r = parsed
	case len(text) == 0 || string(text) == unset:
		*r = 0
	default:
		*r = Internal
	}
	return nil
}
