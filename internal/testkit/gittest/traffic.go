// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

// Stats counts what a server saw for one repository, refused requests included.
type Stats struct {
	// Refs is how often the list of refs was asked for. One fetch over HTTP asks once; over SSH it
	// comes with the fetch and is not counted here.
	Refs int
	// Fetches is how often objects were asked for.
	Fetches int
	// Pushes is how often objects were sent.
	Pushes int
	// InFlight is how many requests that read (refs or objects) are being served right now.
	InFlight int
	// MaxInFlight is the highest InFlight since the start or the last [Repo.ResetStats]: 1 where
	// nobody fetched while another did.
	MaxInFlight int
}

type kind int

const (
	kindOther kind = iota
	kindRefs
	kindFetch
	kindPush
)

// traffic is what Stats tells; the server's lock guards it.
type traffic struct {
	stats Stats
}

// begin counts a request, and returns what to call at its end.
func (s *Server) begin(repository string, k kind) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.trafficOf(repository)
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

// trafficOf needs the lock.
func (s *Server) trafficOf(repository string) *traffic {
	seen, ok := s.traffic[repository]
	if !ok {
		seen = &traffic{}
		s.traffic[repository] = seen
	}
	return seen
}

// Stats returns what the server has seen for this repository.
func (r *Repo) Stats() Stats {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.server.trafficOf(r.name).stats
}

// ResetStats forgets what was counted, but not what is in flight.
func (r *Repo) ResetStats() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	seen := r.server.trafficOf(r.name)
	seen.stats = Stats{InFlight: seen.stats.InFlight, MaxInFlight: seen.stats.InFlight}
}
