// What every run says for people of its encryption: a line, or nothing where there was none.
#pragma once

namespace kerf::apps {

inline const char* encrypted_text(bool data_encrypted) {
  return data_encrypted ? "encrypted  what workers sent each other over tcp\n" : "";
}

}  // namespace kerf::apps
