package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	tokenPath = "/token"
	// Who has no password may pull what is below.
	publicPrefix = "public/"
)

// tokenServer gives tokens as the token authentication of distribution describes it:
// the user gets what they ask for, others get what is public of it, perhaps nothing.
type tokenServer struct {
	user, password string
	life           time.Duration
	signer         jose.Signer
	issued         atomic.Int64
}

// newTokenServer makes a key and writes its public half to keysFile, for the registry.
func newTokenServer(opts options, keysFile string) (*tokenServer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private := jose.JSONWebKey{Key: key, KeyID: realm, Algorithm: string(jose.ES256), Use: "sig"}
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{private.Public()}})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(keysFile, public, 0o600); err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, nil)
	if err != nil {
		return nil, err
	}
	life := time.Duration(opts.tokenSeconds) * time.Second
	return &tokenServer{user: opts.user, password: opts.password, life: life, signer: signer}, nil
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != tokenPath {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet {
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	user, password, known := r.BasicAuth()
	if known && (user != s.user || password != s.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+realm+`"`)
		answerError(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	now := time.Now()
	text, err := s.token(user, now, granted(r.URL.Query()["scope"], known))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !setsUp(r) {
		s.issued.Add(1)
	}
	answer(w, http.StatusOK, map[string]any{
		"token": text, "access_token": text,
		"expires_in": int(s.life.Seconds()), "issued_at": now.UTC().Format(time.RFC3339),
	})
}

func (s *tokenServer) token(user string, now time.Time, access []*token.ResourceActions) (string, error) {
	return jwt.Signed(s.signer).Claims(token.ClaimSet{
		Issuer:   issuer,
		Subject:  user,
		Audience: token.AudienceList{realm},
		// The registry takes a token for a minute longer than it says. The second makes up for the rounding.
		Expiration: now.Add(s.life - token.Leeway + time.Second).Unix(),
		NotBefore:  now.Unix(),
		IssuedAt:   now.Unix(),
		JWTID:      rand.Text(),
		Access:     access,
	}).Serialize()
}

// granted is what of the scopes somebody gets: TYPE:NAME:ACTION,ACTION, several in one text
// or in several.
func granted(scopes []string, known bool) []*token.ResourceActions {
	access := []*token.ResourceActions{}
	for _, scope := range strings.Fields(strings.Join(scopes, " ")) {
		first, last := strings.Index(scope, ":"), strings.LastIndex(scope, ":")
		if first == last {
			continue
		}
		kind, name, actions := scope[:first], scope[first+1:last], strings.Split(scope[last+1:], ",")
		if !known {
			if kind != "repository" || !strings.HasPrefix(name, publicPrefix) || !slices.Contains(actions, "pull") {
				continue
			}
			actions = []string{"pull"}
		}
		access = append(access, &token.ResourceActions{Type: kind, Name: name, Actions: actions})
	}
	return access
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// answerError answers in the form of the registry's own errors.
func answerError(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}})
}
