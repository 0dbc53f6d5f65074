// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hubsecrets makes the secrets and certificates of a hub that docker-compose.yml runs, as
// files in a folder for each reader. A reader can be given its own folder alone.
//
// There are three kinds of files:
//
//   - Sources are random. They are made once and never replaced, because a database may depend on
//     them. The file authority/made lists them: a listed one that is absent was lost, and a new one
//     would hide that.
//   - Certificates are replaced when they end soon, or when other host names are needed.
//   - All others follow from these, such as a URL that contains a password. They are written again
//     when they differ, so an operator who replaces a source replaces nothing else.
//
// A run may be killed at any moment. A file gets its name when it is complete, and the next run
// makes the missing files. Runs exclude each other by a lock.
package hubsecrets

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/localtls"
	"github.com/leatdev/leat/internal/runtime/identity"
)

// The errors of Make, which are wrapped in a [FileError].
var (
	// ErrBusy means that another run is using the folder.
	ErrBusy = errors.New("another run is using the folder")
	// ErrDamaged means that a file does not hold what it should.
	ErrDamaged = errors.New("damaged")
	// ErrFull means that the disk, the volume or a quota is full.
	ErrFull = errors.New("volume full")
	// ErrGroup means that the process may not give its files to the group of a reader.
	ErrGroup = errors.New("the group is not one of this process")
	// ErrLost means that a secret was made before, and is absent.
	ErrLost = errors.New("lost")
	// ErrNotPermitted means that the process may not read or write a file or a folder.
	ErrNotPermitted = errors.New("no access")
)

// FileError is an error about one file or folder.
type FileError struct {
	Path string
	Err  error // matches one of the errors above, or is another one of the system
}

// Error implements error. It contains no secret.
func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Readers lists the folders, each of which has one reader. The authority's key is in the last one,
// which Make alone reads.
var Readers = []string{"gitcache", "distributor", "tunnel", "front", "redis", "postgres", "people", "agent", "authority"}

// Services lists the services that have a secret of their own, in the order in which they are
// printed.
var Services = []string{identity.ServiceDistributor, identity.ServiceGitCache, identity.ServiceTunnel}

// Step is a moment at which a run may be killed.
type Step string

// The steps of each file.
const (
	StepWrite Step = "write" // nothing of it exists
	StepName  Step = "name"  // it is complete under a temporary name
)

// Params select what to make.
type Params struct {
	// Dir is the parent of the readers' folders. Make creates missing ones.
	Dir string
	// Groups are the numeric groups that may read the files of a reader. The files of a reader
	// without an entry can be read by their owner alone.
	Groups map[string]int
	// Hosts are further names and addresses of the servers that have certificates. Empty texts are
	// ignored.
	Hosts []string
	// Given returns the value of a secret that exists elsewhere, by the name of its variable. It is
	// used where the file is absent. Empty: there is none.
	Given func(variable string) string
	// Now is the time at which certificates are judged.
	Now time.Time
	// Fault is called before each step with the path of the file, and fails it. Nil: no step fails.
	Fault func(step Step, path string) error
}

// Result lists the effects of a run.
type Result struct {
	// Written are the files that the run made or replaced, each READER/NAME, in order.
	Written []string
	// NewAuthority is true if clients have to trust another ca.crt than before.
	NewAuthority bool
	// Hosts and Ends are the names and the end of the certificates, which are made at the same times.
	Hosts []string
	Ends  time.Time
}

// source is a secret that is made once.
type source struct {
	path     string // READER/NAME
	variable string // names the secret in an environment
	make     func() string
	check    func(value string) error
}

// sources lists the secrets, the services' first.
func sources() []source {
	var all []source
	for _, service := range Services {
		all = append(all,
			source{service + "/service-secret", SecretVariable(service), Random, isServiceSecret(service)},
			source{service + "/service-other-secrets", OthersVariable(service), func() string { return "" }, areServiceSecrets(service)})
	}
	return append(all,
		source{"distributor/sealing-keys", "LEAT_DISTRIBUTOR_SEALING_KEYS", Random, atLeast(minLength)},
		source{"distributor/admin-token", "LEAT_DISTRIBUTOR_ADMIN_TOKEN", func() string { return tokenPrefix + Random() }, isToken},
		source{"gitcache/webhook-secret", "LEAT_GITCACHE_WEBHOOK_SECRET", Random, atLeast(minWebhook)},
		source{"redis/gitcache-password", "LEAT_REDIS_GITCACHE_PASSWORD", Random, atLeast(minLength)},
		source{"redis/tunnel-password", "LEAT_REDIS_TUNNEL_PASSWORD", Random, atLeast(minLength)},
		source{"postgres/password", "LEAT_POSTGRES_PASSWORD", Random, atLeast(minLength)},
	)
}

// The files of certificates, each with its key.
const (
	authorityFile = "authority/ca.pem"
	tunnelFile    = "tunnel/tls.pem"
	frontFile     = "front/tls.pem" // of the proxy in front of all services
)

// Make makes the missing files of a folder, and replaces certificates that end soon. It returns
// what it did, also beside an error. The error is a [FileError], except for a host that is invalid
// ([localtls.ErrHost]), for which nothing is made.
func Make(p Params) (Result, error) {
	p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(host string) bool { return host == "" })
	if err := localtls.CheckHosts(p.Hosts); err != nil {
		return Result{}, err
	}
	f, err := openFolder(p)
	if err != nil {
		return Result{}, err
	}
	err = f.fill(p)
	return f.result, errors.Join(err, f.close())
}

// fill makes the files in an order in which each one only needs those before it.
func (f *folder) fill(p Params) error {
	values, names := map[string]string{}, []string{authorityFile}
	for _, s := range sources() {
		value, err := f.secret(s, p.Given)
		if err != nil {
			return err
		}
		values[s.path], names = value, append(names, s.path)
	}
	authority, err := f.authority(p)
	if err != nil {
		return err
	}
	for _, path := range []string{tunnelFile, frontFile} {
		if err := f.server(p, authority, path); err != nil {
			return err
		}
	}
	following, err := follow(values)
	if err != nil {
		return err
	}
	ca := strings.TrimSpace(string(localtls.CertificatePEM(authority)))
	following = append(following, file{"tunnel/ca.crt", ca}, file{"front/ca.crt", ca}, file{"people/ca.crt", ca}, file{"agent/ca.crt", ca}, file{madeFile, strings.Join(names, "\n")})
	for _, next := range following {
		if err := f.keep(next.path, next.content); err != nil {
			return err
		}
	}
	return nil
}

// secret returns the value of a source, which it makes if it was never made.
func (f *folder) secret(s source, given func(string) string) (string, error) {
	value, found, err := f.read(s.path)
	if err != nil {
		return "", err
	}
	if !found {
		if value = given(s.variable); value == "" {
			if f.made[s.path] {
				return "", f.failure(s.path, ErrLost)
			}
			value = s.make()
		}
	}
	if err := s.check(value); err != nil {
		if !found {
			return "", &FileError{Path: s.variable, Err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
		return "", f.failure(s.path, fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return value, f.keep(s.path, value)
}

// authority returns the authority. It makes another one when the present one would end before what
// it signs.
func (f *folder) authority(p Params) (tls.Certificate, error) {
	text, found, err := f.read(authorityFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if found {
		authority, err := tls.X509KeyPair([]byte(text), []byte(text))
		if err == nil && !authority.Leaf.IsCA {
			err = errors.New("the certificate is not that of an authority")
		}
		if err != nil {
			return tls.Certificate{}, f.failure(authorityFile, fmt.Errorf("%w: %w", ErrDamaged, err))
		}
		if localtls.Outlives(authority, p.Now) {
			return authority, f.settle(authorityFile)
		}
	} else if f.made[authorityFile] {
		return tls.Certificate{}, f.failure(authorityFile, ErrLost)
	}
	made, err := localtls.NewAuthority("Leat", p.Now)
	if err != nil {
		return tls.Certificate{}, f.failure(authorityFile, err)
	}
	f.result.NewAuthority = found
	if err := f.write(authorityFile, made.Text()); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(made.Cert, made.Key)
}

// server makes the certificate of a reader unless the present one fits. One that cannot be read is
// replaced: nothing depends on it.
func (f *folder) server(p Params, authority tls.Certificate, path string) error {
	reader, _, _ := strings.Cut(path, "/")
	text, _, err := f.read(path)
	if err != nil {
		return err
	}
	server, err := tls.X509KeyPair([]byte(text), []byte(text))
	if err == nil && localtls.Fits(server, authority, p.Hosts, p.Now) {
		err = f.settle(path)
	} else {
		var made localtls.Pair
		if made, err = localtls.Sign(authority, "Leat "+reader, p.Hosts, p.Now); err != nil {
			return err
		}
		if err = f.write(path, made.Text()); err != nil {
			return err
		}
		server, err = tls.X509KeyPair(made.Cert, made.Key)
	}
	if err == nil {
		f.result.Hosts, f.result.Ends = localtls.Names(server.Leaf), server.Leaf.NotAfter
	}
	return err
}

// file is a file and its content, without the end of the last line.
type file struct{ path, content string }

// follow returns the files that follow from the secrets. docker-compose.yml has the names of servers
// and of the database.
func follow(values map[string]string) ([]file, error) {
	var keys []string
	for _, service := range Services {
		secrets := append([]string{values[service+"/service-secret"]}, Split(values[service+"/service-other-secrets"])...)
		for _, secret := range secrets {
			key, err := identity.NewServiceKey([]byte(secret), service)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key.Public())
		}
	}
	var files []file
	for _, service := range Services {
		files = append(files, file{service + "/service-keys", strings.Join(keys, ",")})
	}
	for _, user := range []string{identity.ServiceGitCache, identity.ServiceTunnel} {
		at := url.URL{Scheme: "redis", User: url.UserPassword(user, values["redis/"+user+"-password"]), Host: "redis:6379", Path: "/0"}
		files = append(files, file{user + "/redis-url", at.String()})
	}
	database := url.URL{
		Scheme: "postgres", User: url.UserPassword("leat", values["postgres/password"]), Host: "postgres:5432", Path: "/leat",
		RawQuery: "sslmode=disable", // the database's network has no other member
	}
	return append(files,
		file{"distributor/database-url", database.String()},
		file{"people/token", values["distributor/admin-token"]},
		file{"people/webhook-secret", values["gitcache/webhook-secret"]},
	), nil
}

// SecretVariable returns the name of the variable that holds the secret of a service outside of the
// service.
func SecretVariable(service string) string { return "LEAT_" + strings.ToUpper(service) + "_SECRET" }

// OthersVariable returns the name of the variable that holds the other secrets of a service outside
// of the service.
func OthersVariable(service string) string {
	return "LEAT_" + strings.ToUpper(service) + "_OTHER_SECRETS"
}

// Split returns the parts of a list that is separated by commas, without empty ones.
func Split(list string) (parts []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Random returns 256 random bits.
func Random() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

// tokenPrefix begins every API token.
const tokenPrefix = "leat_"

// The shortest secrets, in bytes, that the programs accept.
const (
	minLength  = 32
	minWebhook = 16
)

func isServiceSecret(service string) func(string) error {
	return func(value string) error {
		_, err := identity.NewServiceKey([]byte(value), service)
		return err
	}
}

func areServiceSecrets(service string) func(string) error {
	return func(list string) error {
		for _, value := range Split(list) {
			if err := isServiceSecret(service)(value); err != nil {
				return err
			}
		}
		return nil
	}
}

func atLeast(length int) func(string) error {
	return func(value string) error {
		if len(value) < length {
			return fmt.Errorf("got %d bytes, want at least %d", len(value), length)
		}
		return nil
	}
}

func isToken(value string) error {
	if !strings.HasPrefix(value, tokenPrefix) {
		return errors.New("it does not begin with " + tokenPrefix)
	}
	return atLeast(minLength)(value)
}
