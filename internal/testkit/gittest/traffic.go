// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

// Stats counts a server's requests for one repository, including refused ones.
type Stats struct {
	// Refs is how often the list of refs was requested. One fetch over HTTP requests it once. Over
	// SSH it comes with the fetch and is not counted here.
	Refs int
	// Fetches is how often objects were requested.
	Fetches int
	// Pushes is how often objects were sent.
	Pushes int
	// InFlight is how many reading requests (refs or objects) are being served right now.
	InFlight int
	// MaxInFlight is the highest InFlight since the start or the last [Repo.ResetStats]: 1 if no
	// two fetches overlapped.
	MaxInFlight int
}

type kind int

const (
	kindOther kind = iota
	kindRefs
	kindFetch
	kindPush
)

// begin counts a request, and returns a function to call at its end.
func (s *Server) begin(repository string, k kind) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.statsLocked(repository)
	switch k {
	case kindRefs:
		seen.Refs++
	case kindFetch:
		seen.Fetches++
	case kindPush:
		seen.Pushes++
		return func() {}
	case kindOther:
		return func() {}
	}
	seen.InFlight++
	seen.MaxInFlight = max(seen.MaxInFlight, seen.InFlight)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen.InFlight--
	}
}

// statsLocked returns where the requests for a repository are counted.
func (s *Server) statsLocked(repository string) *Stats {
	if s.stats[repository] == nil {
		s.stats[repository] = &Stats{}
	}
	return s.stats[repository]
}

// Stats returns the requests for this repository so far.
func (r *Repo) Stats() Stats {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return *r.server.statsLocked(r.name)
}

// ResetStats resets the counts, but not the requests in flight.
func (r *Repo) ResetStats() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	seen := r.server.statsLocked(r.name)
	*seen = Stats{InFlight: seen.InFlight, MaxInFlight: seen.InFlight}
}
