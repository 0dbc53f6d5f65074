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

// traffic is the state behind Stats. The server's lock guards it.
type traffic struct {
	stats Stats
}

// begin counts a request, and returns a function to call at its end.
func (s *Server) begin(repository string, k kind) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.trafficOfLocked(repository)
	switch k {
	case kindRefs:
		seen.stats.Refs++
	case kindFetch:
		seen.stats.Fetches++
	case kindPush:
		seen.stats.Pushes++
		return func() {}
	case kindOther:
		return func() {}
	}
	seen.stats.InFlight++
	seen.stats.MaxInFlight = max(seen.stats.MaxInFlight, seen.stats.InFlight)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen.stats.InFlight--
	}
}

// trafficOfLocked returns the traffic of a repository.
func (s *Server) trafficOfLocked(repository string) *traffic {
	seen, ok := s.traffic[repository]
	if !ok {
		seen = &traffic{}
		s.traffic[repository] = seen
	}
	return seen
}

// Stats returns the requests for this repository so far.
func (r *Repo) Stats() Stats {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.server.trafficOfLocked(r.name).stats
}

// ResetStats resets the counts, but not the requests in flight.
func (r *Repo) ResetStats() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	seen := r.server.trafficOfLocked(r.name)
	seen.stats = Stats{InFlight: seen.stats.InFlight, MaxInFlight: seen.stats.InFlight}
}
